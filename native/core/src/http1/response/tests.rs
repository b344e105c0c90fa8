use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Got {
    status: u16,
    content_type: String,
    body: Vec<u8>,
    ended: bool,
    reusable: bool,
    left: usize,
}

fn read(method: &str, pieces: &[&[u8]], eof: bool) -> Result<Got, Error> {
    let mut reader = Reader::new(method);
    let mut got = Got::default();
    for piece in pieces {
        let mut input = *piece;
        while let Some(part) = reader.next(&mut input)? {
            match part {
                Part::Head(head) => {
                    assert_eq!(got.status, 0, "one head only");
                    (got.status, got.content_type) = (head.status, head.content_type);
                }
                Part::Body(data) => {
                    assert!(!data.is_empty());
                    got.body.extend_from_slice(data);
                }
                Part::End => got.ended = true,
            }
        }
        got.left += input.len();
    }
    if eof && reader.eof()?.is_some() {
        got.ended = true;
    }
    got.reusable = reader.is_reusable() && got.left == 0;
    Ok(got)
}

/// Read it whole, at every cut and byte by byte; all must agree.
fn read_every_way(method: &str, text: &[u8]) -> Result<Got, Error> {
    let whole = read(method, &[text], false);
    for cut in 0..text.len() {
        assert_eq!(read(method, &[&text[..cut], &text[cut..]], false), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(read(method, &single, false), whole);
    whole
}

#[test]
fn a_body_ends_by_length_by_chunks_or_with_the_connection() {
    let got =
        read_every_way("POST", b"HTTP/1.1 200 OK\r\nContent-Type: a/b; c=d\r\nContent-Length: 5\r\n\r\nhello").unwrap();
    assert_eq!((got.status, got.content_type.as_str(), got.body.as_slice()), (200, "a/b; c=d", b"hello".as_slice()));
    assert!(got.ended && got.reusable);

    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n3;x=\"y\"\r\nabc\r\n00A \r\n0123456789\r\n0\r\nX: y\r\n\r\n";
    let got = read_every_way("POST", chunked).unwrap();
    assert_eq!(got.body, b"abc0123456789");
    assert!(got.ended && got.reusable);

    let closing = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
    let got = read_every_way("POST", closing).unwrap();
    assert!(!got.ended);
    let got = read("POST", &[closing], true).unwrap();
    assert!(got.ended && !got.reusable);
    assert_eq!(got.body, b"until the end");
}

#[test]
fn answers_without_body_end_with_their_head() {
    for (method, text) in [
        ("POST", b"HTTP/1.1 204 No Content\r\n\r\n".as_slice()),
        ("POST", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"),
        ("POST", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\na: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ] {
        let got = read_every_way(method, text).unwrap();
        assert!(got.ended && got.reusable && got.body.is_empty(), "{text:?}");
    }
}

#[test]
fn a_connection_is_reused_only_when_it_may_be() {
    for (text, reusable) in [
        (b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n".as_slice(), true),
        (b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n", false),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", true),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 500 Injected\r\n\r\n", false),
    ] {
        assert_eq!(read_every_way("POST", text).unwrap().reusable, reusable, "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn heads_and_lengths_that_could_be_read_two_ways_are_refused() {
    for (text, error) in [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice(), Error::BadLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Error::BadLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", Error::BadLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", Error::BadLength),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", Error::BadLength),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Error::BadLength),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", Error::BadLength),
        (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Error::BadLength),
        (b"HTTP/1.1 101 Switching\r\n\r\n", Error::BadHead),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Error::BadHead),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello", Error::BadChunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", Error::BadChunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", Error::BadChunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n", Error::BadChunk),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000000000000000\r\n", Error::BadChunk),
    ] {
        assert_eq!(read_every_way("POST", text), Err(error), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_head_without_end_is_refused_at_its_bound_and_a_cut_answer_is_said() {
    let endless = vec![b'a'; MAX_HEAD + 1];
    assert_eq!(read("GET", &[b"HTTP/1.1 200 OK\r\nX: ", &endless], false), Err(Error::HeadTooLong));
    let mut fields = b"HTTP/1.1 200 OK\r\n".to_vec();
    fields.extend(b"a: b\r\n".repeat(200));
    fields.extend(b"\r\n");
    assert_eq!(read("GET", &[&fields], false), Err(Error::HeadTooLong));
    for text in [
        b"".as_slice(),
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        assert_eq!(read("GET", &[text], true), Err(Error::Cut));
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_the_same_at_any_cut(
        tail in proptest::collection::vec(prop_oneof![
            Just(b"\r\n".to_vec()), Just(b"5".to_vec()), Just(b"hello".to_vec()), Just(b"0\r\n".to_vec()), Just(b";".to_vec()),
            Just(b"Content-Length: 4\r\n".to_vec()), Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..4),
        ], 0..24),
        cut in any::<proptest::sample::Index>(),
    ) {
        let mut text = b"HTTP/1.1 200 OK\r\n".to_vec();
        text.extend(tail.concat());
        let cut = cut.index(text.len() + 1);
        prop_assert_eq!(read("POST", &[&text[..cut], &text[cut..]], true), read("POST", &[&text], true));
    }
}
