//! Models in several files: `NAME-00001-of-0000N.gguf`, and the keys that say so inside.

/// Most files a split model is taken to have; the digits would allow 99,999.
const MAX_PARTS: u32 = 10_000;

/// What a file name says about its place in a split model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The name before `-00001-of-0000N.gguf`.
    pub stem: String,
    /// This file's number, from 1.
    pub number: u32,
    /// How many files there are.
    pub count: u32,
}

impl Part {
    /// Read a file name (without its folder); none when it does not name a part.
    pub fn from_name(name: &str) -> Option<Self> {
        let rest = name.strip_suffix(".gguf")?;
        let (rest, count) = rest.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let (number, count) = (digits(number)?, digits(count)?);
        let sound = !stem.is_empty() && number >= 1 && number <= count && count <= MAX_PARTS;
        sound.then(|| Self { stem: stem.to_owned(), number, count })
    }

    /// The names of all the parts, in order, this one among them.
    pub fn names(&self) -> Vec<String> {
        (1..=self.count).map(|number| format!("{}-{number:05}-of-{:05}.gguf", self.stem, self.count)).collect()
    }
}

fn digits(text: &str) -> Option<u32> {
    (text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_knows_its_siblings() {
        let part = Part::from_name("Big-Model-Q4_K_M-00002-of-00003.gguf").expect("a part");
        assert_eq!((part.stem.as_str(), part.number, part.count), ("Big-Model-Q4_K_M", 2, 3));
        assert_eq!(part.names()[0], "Big-Model-Q4_K_M-00001-of-00003.gguf");
        assert_eq!(part.names().len(), 3);
    }

    #[test]
    fn other_names_are_no_parts() {
        for name in [
            "model.gguf",
            "model-00000-of-00002.gguf",
            "model-00003-of-00002.gguf",
            "model-1-of-2.gguf",
            "model-00001-of-00002.bin",
            "-00001-of-00002.gguf",
            "model-00001-of-99999.gguf",
            "model-0000a-of-00002.gguf",
            "model-+0001-of-00002.gguf",
        ] {
            assert_eq!(Part::from_name(name), None, "{name}");
        }
    }
}
