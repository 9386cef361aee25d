//! Values that other libraries read without a copy.

use std::{
    ffi::{c_int, c_void},
    ptr,
    sync::Arc,
};

use pyo3::{
    exceptions::{PyBufferError, PyIndexError},
    ffi,
    prelude::*,
    types::{PyList, PyTuple},
};

use crate::dlpack::{self, Data, Demand};

/// Read-only float32 values `[…]`, for `numpy.asarray`, `torch.from_dlpack` and `memoryview`.
#[pyclass(frozen, module = "pelton")]
pub(crate) struct Array {
    data: Arc<Data>,
    /// The shape and the strides in bytes, as the buffer protocol has them.
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

const ITEM: usize = size_of::<f32>();

impl Array {
    /// An array of one or two dimensions: rows of `width` elements, or one row without them.
    pub(crate) fn new(values: Vec<f32>, width: usize, is_matrix: bool) -> Self {
        let width = width.max(1);
        let rows = values.len() / width;
        let (shape, strides) = match is_matrix {
            true => (vec![rows as i64, width as i64], vec![width as i64, 1]),
            false => (vec![values.len() as i64], vec![1]),
        };
        let sizes = |list: &[i64], factor: usize| {
            list.iter().map(|&size| size as ffi::Py_ssize_t * factor as ffi::Py_ssize_t).collect()
        };
        let (bytes_shape, bytes_strides) = (sizes(&shape, 1), sizes(&strides, ITEM));
        let data = Arc::new(Data { values, shape, strides });
        Self { data, shape: bytes_shape, strides: bytes_strides }
    }
}

#[pymethods]
impl Array {
    /// The sizes of the dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.data.shape)
    }

    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.data.values.len() * ITEM
    }

    /// The elements as floats, in nested lists.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = &self.data.values;
        match self.data.shape[..] {
            [_, width] => {
                let rows = values.chunks_exact(width.max(1) as usize);
                PyList::new(py, rows.map(|row| row.to_vec()))
            }
            _ => PyList::new(py, values),
        }
    }

    fn __len__(&self) -> usize {
        self.data.shape.first().map_or(0, |&size| size as usize)
    }

    /// An element, or a row of a matrix.
    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let len = self.__len__();
        let at = if index < 0 { index + len as isize } else { index };
        let at = usize::try_from(at).ok().filter(|&at| at < len).ok_or_else(|| {
            PyIndexError::new_err(format!("index {index} is out of range for {len} elements"))
        })?;
        let width = self.data.values.len() / len;
        let row = &self.data.values[at * width..(at + 1) * width];
        match self.data.shape.len() {
            1 => Ok(row[0].into_pyobject(py)?.into_any()),
            _ => Ok(Bound::new(py, Self::new(row.to_vec(), width, false))?.into_any()),
        }
    }

    /// The buffer protocol.
    ///
    /// # Safety
    ///
    /// Python calls it with a valid `view`.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is NULL"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the values are read-only"));
        }
        let has = |flag: c_int| flags & flag == flag;
        let array = slf.get();
        // the owner is kept until the view is released, and a frozen class does not move its
        // vectors
        let filled = ffi::Py_buffer {
            buf: array.data.values.as_ptr().cast_mut().cast::<c_void>(),
            len: array.nbytes() as ffi::Py_ssize_t,
            readonly: 1,
            itemsize: ITEM as ffi::Py_ssize_t,
            format: match has(ffi::PyBUF_FORMAT) {
                true => c"f".as_ptr().cast_mut(),
                false => ptr::null_mut(),
            },
            ndim: array.shape.len() as c_int,
            shape: match has(ffi::PyBUF_ND) {
                true => array.shape.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            },
            strides: match has(ffi::PyBUF_STRIDES) {
                true => array.strides.as_ptr().cast_mut(),
                false => ptr::null_mut(),
            },
            suboffsets: ptr::null_mut(),
            internal: ptr::null_mut(),
            obj: slf.clone().into_any().into_ptr(),
        };
        // SAFETY: Python passes a view that can be written.
        unsafe { view.write(filled) };
        Ok(())
    }

    /// DLPack's device: the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    /// A capsule of DLPack, without a copy where the consumer knows read-only values.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = stream;
        dlpack::capsule(py, &self.data, Demand { max_version, device: dl_device, copy })
    }

    fn __repr__(&self) -> String {
        format!("Array(shape={:?}, float32)", self.data.shape)
    }
}
