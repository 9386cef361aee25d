//! DLPack: tensors between libraries in one process (<https://dmlc.github.io/dlpack/latest/>).

use std::{
    ffi::{CStr, c_void},
    sync::Arc,
};

use pyo3::{exceptions::PyBufferError, ffi, prelude::*};

/// `kDLCPU`, device 0.
pub(crate) const CPU: (i32, i32) = (1, 0);
/// `kDLFloat`.
const FLOAT: u8 = 2;
/// The flags of versioned tensors.
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

/// The elements of an array in row-major order, with its shape.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) values: Vec<f32>,
    pub(crate) shape: Vec<i64>,
    /// Elements between neighbors of each dimension.
    pub(crate) strides: Vec<i64>,
}

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: (i32, i32),
    dimensions: i32,
    kind: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`, and the owner of its memory behind it.
#[repr(C)]
struct Plain {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    owner: Arc<Data>,
}

/// `DLManagedTensorVersioned`, and the owner of its memory behind it.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
    owner: Arc<Data>,
}

/// What a consumer asks for.
pub(crate) struct Demand {
    /// The newest version that it knows; `None` for one that knows no versions.
    pub(crate) max_version: Option<(u32, u32)>,
    pub(crate) device: Option<(i32, i32)>,
    pub(crate) copy: Option<bool>,
}

impl Tensor {
    /// A tensor over the values; the pointers are valid as long as `data` lives.
    fn new(data: &Data) -> Self {
        Self {
            data: data.values.as_ptr().cast_mut().cast(),
            device: CPU,
            dimensions: data.shape.len() as i32,
            kind: FLOAT,
            bits: 32,
            lanes: 1,
            shape: data.shape.as_ptr().cast_mut(),
            strides: data.strides.as_ptr().cast_mut(),
            byte_offset: 0,
        }
    }
}

/// A capsule with the values.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    data: &Arc<Data>,
    demand: Demand,
) -> PyResult<Bound<'py, PyAny>> {
    if demand.device.is_some_and(|device| device != CPU) {
        return Err(PyBufferError::new_err("the values are on the CPU, expected dl_device (1, 0)"));
    }
    let is_versioned = demand.max_version.is_some_and(|(major, _)| major >= 1);
    // a consumer without versions may write
    let copies = demand.copy.unwrap_or(!is_versioned);
    if !copies && !is_versioned {
        return Err(PyBufferError::new_err(
            "the values are read-only, expected a consumer of DLPack 1.0, or a copy",
        ));
    }
    let owner = match copies {
        true => Arc::new(Data {
            values: data.values.clone(),
            shape: data.shape.clone(),
            strides: data.strides.clone(),
        }),
        false => Arc::clone(data),
    };
    let tensor = Tensor::new(&owner);
    let (context, flags) = (std::ptr::null_mut(), if copies { IS_COPIED } else { READ_ONLY });
    let (pointer, name, release): (*mut c_void, &CStr, unsafe extern "C" fn(*mut ffi::PyObject)) =
        match is_versioned {
            true => {
                let deleter = Some(delete::<Versioned> as unsafe extern "C" fn(*mut Versioned));
                let versioned =
                    Versioned { major: 1, minor: 0, context, deleter, flags, tensor, owner };
                (Box::into_raw(Box::new(versioned)).cast(), VERSIONED, release_versioned)
            }
            false => {
                let deleter = Some(delete::<Plain> as unsafe extern "C" fn(*mut Plain));
                let plain = Plain { tensor, context, deleter, owner };
                (Box::into_raw(Box::new(plain)).cast(), PLAIN, release_plain)
            }
        };
    // SAFETY: the pointer is that of a box, the name lives for ever, and the destructor is that of
    // the box's type. The call returns a new reference, or NULL with an exception.
    unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(release));
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// The deleter of a tensor, which its consumer calls once, on any thread.
///
/// # Safety
///
/// `tensor` is a box that [`capsule`] made.
unsafe extern "C" fn delete<T>(tensor: *mut T) {
    if !tensor.is_null() {
        // SAFETY: the consumer has the box, and calls the deleter once.
        drop(unsafe { Box::from_raw(tensor) });
    }
}

/// Deletes the tensor of a capsule that nobody has consumed: a consumer renames it.
///
/// # Safety
///
/// Python calls it with the capsule that it destroys; a capsule of this name has a box of `T`.
unsafe fn release<T>(capsule: *mut ffi::PyObject, name: &CStr) {
    // SAFETY: the capsule is valid while its destructor runs.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 1 {
            delete(ffi::PyCapsule_GetPointer(capsule, name.as_ptr()).cast::<T>());
        }
    }
}

unsafe extern "C" fn release_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of this name is one of `capsule`.
    unsafe { release::<Plain>(capsule, PLAIN) }
}

unsafe extern "C" fn release_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of this name is one of `capsule`.
    unsafe { release::<Versioned>(capsule, VERSIONED) }
}
