//! `Gguf`: the header of a model file, read with plain reads.
//!
//! Not mapped: a file that shrinks under a mapping kills the process (SIGBUS), and downloads do shrink and vanish. The
//! header is copied instead, and only as much of the file as the header turns out to need; arrays stay unread in that copy.
use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use blazar_core::gguf::{Array, Error, Facts, Gguf, Value, scan_header};
use pyo3::{
    create_exception,
    exceptions::PyValueError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};

/// Reading begins with this much: it holds the header of a small vocabulary.
const FIRST_READ: u64 = 1 << 20;
/// No real header is near this; a hostile one could otherwise ask for the whole disk.
const LARGEST_HEADER: u64 = 256 << 20;

create_exception!(
    _native,
    GgufError,
    PyValueError,
    "A file that is no sound GGUF: `offset` in bytes, `kind` of fault."
);

enum Failure {
    Io(io::Error),
    Gguf(Error),
    TooLarge(u64),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn fault(py: Python<'_>, message: String, offset: u64, kind: &str) -> PyErr {
    let error = GgufError::new_err(message);
    let value = error.value(py);
    match value.setattr("offset", offset).and_then(|()| value.setattr("kind", kind)) {
        Ok(()) => error,
        Err(worse) => worse,
    }
}

fn raise(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Io(error) => error.into(),
        Failure::Gguf(error) => fault(py, error.to_string(), error.offset(), error.kind()),
        Failure::TooLarge(at) => {
            let message =
                format!("the header goes on behind {LARGEST_HEADER} bytes, which no model's does (at byte {at})");
            fault(py, message, at, "header_size")
        }
    }
}

fn read(path: &Path) -> Result<Gguf<Vec<u8>>, Failure> {
    // Asked before opening: to open a named pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file").into());
    }
    let mut file = File::open(path)?;
    let mut size = file.metadata()?.len();
    let mut bytes = Vec::new();
    let mut want = FIRST_READ;
    loop {
        let target = want.min(size);
        let missing = target.saturating_sub(bytes.len() as u64);
        bytes.reserve_exact(usize::try_from(missing).map_err(|_| Failure::TooLarge(target))?);
        file.by_ref().take(missing).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < target {
            size = bytes.len() as u64; // It shrank meanwhile.
        }
        match scan_header(&bytes, size) {
            Ok(index) => return Ok(Gguf::join(bytes, index)),
            Err(Error::More { at, end }) if end > LARGEST_HEADER => return Err(Failure::TooLarge(at)),
            Err(Error::More { end, .. }) => want = end.max(want.saturating_mul(2)).min(LARGEST_HEADER),
            Err(error) => return Err(Failure::Gguf(error)),
        }
    }
}

/// The header of a GGUF file.
#[pyclass(frozen, name = "Gguf", module = "blazar._native")]
pub struct PyGguf {
    file: Gguf<Vec<u8>>,
}

#[pymethods]
impl PyGguf {
    /// Read the header of the file at `path`.
    #[staticmethod]
    #[allow(clippy::needless_pass_by_value)] // extracted from a Python object
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let file = py.detach(|| read(&path)).map_err(|failure| raise(py, failure))?;
        Ok(Self { file })
    }

    /// Read a header from its bytes, of a file of `size` bytes (default: exactly these).
    #[staticmethod]
    #[pyo3(signature = (data, size = None))]
    fn parse(py: Python<'_>, data: &[u8], size: Option<u64>) -> PyResult<Self> {
        let size = size.unwrap_or(data.len() as u64);
        let bytes = data.to_vec();
        let file = py.detach(|| Gguf::parse(bytes, size)).map_err(|error| raise(py, Failure::Gguf(error)))?;
        Ok(Self { file })
    }

    #[getter]
    fn version(&self) -> u32 {
        self.file.version()
    }

    #[getter]
    fn byte_order(&self) -> &'static str {
        self.file.order().name()
    }

    #[getter]
    fn alignment(&self) -> u64 {
        self.file.alignment()
    }

    #[getter]
    fn header_bytes(&self) -> u64 {
        self.file.header_bytes()
    }

    #[getter]
    fn data_start(&self) -> u64 {
        self.file.data_start()
    }

    #[getter]
    fn size(&self) -> u64 {
        self.file.size()
    }

    #[getter]
    fn tensor_count(&self) -> usize {
        self.file.tensor_count()
    }

    /// Every key with its value; an array longer than `limit` is None.
    #[pyo3(signature = (limit = None))]
    fn pairs<'py>(&self, py: Python<'py>, limit: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in self.file.pairs() {
            let long = matches!(&value, Value::Array(array) if limit.is_some_and(|limit| array.len() > limit));
            dict.set_item(key, if long { py.None().into_bound(py) } else { object(py, value)? })?;
        }
        Ok(dict)
    }

    /// The value of one key, or None.
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.file.get(key).map(|value| object(py, value)).transpose()
    }

    /// Type of the items, number of items and offset of the first one, if `key` is an array.
    fn array(&self, key: &str) -> Option<(&'static str, u64, u64)> {
        let value = self.file.get(key)?;
        let array: &Array<'_> = value.as_array()?;
        Some((array.item_type().name(), array.len(), array.offset()))
    }

    /// Name, type, dimensions, bytes and offset in the file of every tensor.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for tensor in self.file.tensors() {
            let dims = PyTuple::new(py, tensor.dims)?;
            list.append((tensor.name, tensor.kind.name, dims, tensor.bytes, tensor.offset))?;
        }
        Ok(list)
    }

    /// What the header says about the model, as one dict.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = py.detach(|| self.file.facts());
        facts_dict(py, facts)
    }
}

fn object<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Unsigned(number) => number.into_pyobject(py)?.into_any(),
        Value::Signed(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(array) => {
            let list = PyList::empty(py);
            for item in &array {
                list.append(object(py, item)?)?;
            }
            list.into_any()
        }
    })
}

fn facts_dict(py: Python<'_>, facts: Facts) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("architecture", facts.architecture)?;
    dict.set_item("kind", facts.kind)?;
    dict.set_item("name", facts.name)?;
    dict.set_item("file_type", facts.file_type)?;
    dict.set_item("declared", facts.declared)?;
    dict.set_item("guessed", facts.guessed)?;
    dict.set_item("numbers", facts.numbers.into_iter().collect::<std::collections::HashMap<_, _>>())?;
    let lists = PyDict::new(py);
    for (name, values) in facts.per_layer {
        lists.set_item(name, PyTuple::new(py, values)?)?;
    }
    dict.set_item("per_layer", lists)?;
    dict.set_item("templates", facts.templates.into_iter().collect::<std::collections::HashMap<_, _>>())?;
    dict.set_item("parameters", facts.parameters)?;
    dict.set_item("tensor_bytes", facts.tensor_bytes)?;
    dict.set_item("layer_bytes", PyTuple::new(py, facts.layer_bytes)?)?;
    dict.set_item("embedding_bytes", facts.embedding_bytes)?;
    dict.set_item("expert_bytes", facts.expert_bytes)?;
    dict.set_item("has_output", facts.has_output)?;
    dict.set_item("split", facts.split)?;
    let words = facts.tokenizer;
    dict.set_item("tokenizer_model", words.model)?;
    dict.set_item("tokenizer_pre", words.pre)?;
    dict.set_item("vocabulary", words.vocabulary)?;
    dict.set_item("bos", words.bos)?;
    dict.set_item("eos", words.eos)?;
    dict.set_item("add_bos", words.add_bos)?;
    dict.set_item("add_eos", words.add_eos)?;
    dict.set_item("fills_in", words.fills_in)?;
    Ok(dict)
}

/// The names of all parts of the split model that the file `name` is a part of, and this one's number from 1.
#[pyfunction]
pub fn gguf_parts(name: &str) -> Option<(u32, Vec<String>)> {
    let part = blazar_core::gguf::Part::from_name(name)?;
    Some((part.number, part.names()))
}
