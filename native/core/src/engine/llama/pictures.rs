//! Pictures that the engine cannot decode (it knows PNG, JPEG, BMP and GIF), made PNG before it sees them.
use crate::chat::{Part, Prompt, Request};
use base64::{Engine, engine::general_purpose::STANDARD};
use image_webp::WebPDecoder;
use std::io::Cursor;

/// Four bytes each while it is converted.
const MOST_PIXELS: u64 = 32 * 1024 * 1024;
/// What twelve bytes take in base64: `RIFF`, four for a length, `WEBP`.
const HEAD: usize = 16;

/// Whether some picture of `request` must be converted, whatever type its client declared.
pub fn foreign(request: &Request) -> bool {
    let Prompt::Chat(turns) = &request.prompt else { return false };
    turns.iter().flat_map(|turn| &turn.parts).any(|part| matches!(part, Part::Image { base64, .. } if is_webp(base64)))
}

/// Convert them. It takes a few milliseconds for a million pixels. The error is a sentence for the client.
pub fn convert(request: &mut Request) -> Result<(), String> {
    let Prompt::Chat(turns) = &mut request.prompt else { return Ok(()) };
    for part in turns.iter_mut().flat_map(|turn| &mut turn.parts) {
        if let Part::Image { mime, base64 } = part
            && is_webp(base64)
        {
            let data =
                STANDARD.decode(base64.as_bytes()).map_err(|error| format!("The image is no base64: {error}."))?;
            *base64 = STANDARD.encode(png(data)?);
            "image/png".clone_into(mime);
        }
    }
    Ok(())
}

fn is_webp(base64: &str) -> bool {
    base64
        .as_bytes()
        .get(..HEAD)
        .and_then(|head| STANDARD.decode(head).ok())
        .is_some_and(|bytes| bytes.starts_with(b"RIFF") && &bytes[8..12] == b"WEBP")
}

/// The first frame, where there are several.
fn png(webp: Vec<u8>) -> Result<Vec<u8>, String> {
    let broken = |error: &dyn std::fmt::Display| format!("The WebP image cannot be read: {error}.");
    let mut decoder = WebPDecoder::new(Cursor::new(webp)).map_err(|error| broken(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(format!("The WebP image has {width}x{height} pixels, more than {MOST_PIXELS}. Send it smaller."));
    }
    let size = decoder.output_buffer_size().ok_or_else(|| broken(&"it is too large"))?;
    let mut pixels = vec![0; size];
    decoder.read_image(&mut pixels).map_err(|error| broken(&error))?;
    let mut out = Vec::with_capacity(size / 2);
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(if decoder.has_alpha() { png::ColorType::Rgba } else { png::ColorType::Rgb });
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header().map_err(|error| broken(&error))?;
    writer.write_image_data(&pixels).map_err(|error| broken(&error))?;
    writer.finish().map_err(|error| broken(&error))?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webp(width: u32, height: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let pixels: Vec<u8> = (0..width * height * 3).map(|n| (n % 251).to_le_bytes()[0]).collect();
        image_webp::WebPEncoder::new(&mut out).encode(&pixels, width, height, image_webp::ColorType::Rgb8).unwrap();
        out
    }

    fn asked(data: &[u8]) -> Request {
        let body = format!(
            r#"{{"model": "m", "messages": [{{"role": "user", "content": [{{"type": "image_url", "image_url":
            {{"url": "data:image/png;base64,{}"}}}}]}}]}}"#,
            STANDARD.encode(data)
        );
        crate::dialect::Route::OpenaiChat.parse(body.as_bytes()).unwrap()
    }

    fn picture(request: &Request) -> (&str, Vec<u8>) {
        let Prompt::Chat(turns) = &request.prompt else { panic!("no conversation") };
        let Part::Image { mime, base64 } = &turns[0].parts[0] else { panic!("no picture") };
        (mime, STANDARD.decode(base64).unwrap())
    }

    #[test]
    fn trap_48_webp_under_any_declared_type_becomes_png_with_the_same_pixels() {
        let original = webp(5, 3);
        let mut request = asked(&original);
        assert!(foreign(&request));
        convert(&mut request).unwrap();
        assert!(!foreign(&request));
        let (mime, png) = picture(&request);
        assert_eq!(mime, "image/png");
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let mut wanted = vec![0; pixels.len()];
        WebPDecoder::new(Cursor::new(original)).unwrap().read_image(&mut wanted).unwrap();
        assert_eq!(pixels, wanted);
    }

    #[test]
    fn what_is_no_webp_is_left_alone() {
        for data in [&b"\x89PNG\r\n\x1a\n-------------"[..], b"RIFF----WAVE----", b"short"] {
            let mut request = asked(data);
            assert!(!foreign(&request));
            convert(&mut request).unwrap();
            assert_eq!(picture(&request).1, data);
        }
    }

    #[test]
    fn broken_and_huge_ones_say_so() {
        let whole = webp(40, 40);
        for cut in 12..whole.len() - 1 {
            assert!(convert(&mut asked(&whole[..cut])).is_err(), "{cut}");
        }
        // A lossless header that declares 16383 x 16383 pixels.
        let huge = b"RIFF\x1e\0\0\0WEBPVP8L\x11\0\0\0\x2f\xfe\xbf\xff\x0f\0\0\0\0\0\0\0\0\0\0\0\0\0";
        let error = convert(&mut asked(huge)).unwrap_err();
        assert!(error.contains("16383x16383"), "{error}");
    }
}
