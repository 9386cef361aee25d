//! The tensors of a model file.

use std::{
    ffi::{c_char, c_void},
    mem,
};

use crate::{
    error::pelton_error, fault::Fault, guard::guard, handles, memory::sized_out,
    model::pelton_model, status::pelton_status,
};

/// A tensor of a model file. The caller sets `size`. Names and data live as long as the model's
/// handle.
#[repr(C)]
pub struct pelton_tensor {
    /// `sizeof(pelton_tensor)`, set by the caller.
    pub size: u32,
    /// Dimensions.
    pub rank: u32,
    /// The name: UTF-8 without a NUL after it.
    pub name: *const c_char,
    /// Bytes of the name.
    pub name_length: usize,
    /// The type of the elements, such as `Q4_K`: UTF-8 without a NUL after it.
    pub dtype: *const c_char,
    /// Bytes of the type's name.
    pub dtype_length: usize,
    /// The lengths of the dimensions, the innermost first; 1 beyond the rank.
    pub shape: [u64; 4],
    /// The elements as the file has them.
    pub data: *const c_void,
    /// Bytes of the elements.
    pub byte_count: usize,
}

/// Reads a tensor of the model file by its index, below the model's number `tensors`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pelton_model_tensor(
    model: *const pelton_model,
    index: usize,
    tensor: *mut pelton_tensor,
    error: *mut *mut pelton_error,
) -> pelton_status {
    // SAFETY: the caller keeps the header's rules of pointers.
    unsafe {
        guard(error, || {
            let model = handles::get(model)?;
            let place = sized_out(tensor, mem::size_of::<pelton_tensor>(), "tensor")?;
            let checkpoint = model.text()?.checkpoint();
            let count = checkpoint.tensors().len();
            let found = checkpoint.tensors().nth(index).ok_or_else(|| {
                Fault::invalid(format_args!("tensor {index}, expected one below {count}"))
            })?;
            let mut shape = [1; 4];
            for (length, &from) in shape.iter_mut().zip(found.shape) {
                *length = from as u64;
            }
            let dtype = found.dtype.name();
            place.set(pelton_tensor {
                size: 0,
                rank: found.shape.len() as u32,
                name: found.name.as_ptr().cast(),
                name_length: found.name.len(),
                dtype: dtype.as_ptr().cast(),
                dtype_length: dtype.len(),
                shape,
                data: found.bytes.as_ptr().cast(),
                byte_count: found.bytes.len(),
            });
            Ok(())
        })
    }
}
