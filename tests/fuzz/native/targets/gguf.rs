//! Any bytes, of a file that claims any size, are a header all of whose parts can be looked at, or an error that names a
//! place in the file.
#![no_main]
use blazar_core::gguf::{Gguf, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [extra, bytes @ ..] = input else { return };
    let size = bytes.len() as u64 + (u64::from(*extra) << 8);
    match Gguf::parse(bytes, size) {
        Err(error) => assert!(error.offset() <= size, "{error}"),
        Ok(file) => {
            for (_, value) in file.pairs() {
                if let Value::Array(array) = value {
                    assert!(array.iter().take(1 << 16).count() <= bytes.len());
                }
            }
            let total: u64 = file.tensors().map(|tensor| tensor.bytes).sum();
            assert!(total <= size);
            file.facts();
        }
    }
});
