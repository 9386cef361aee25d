//! Calls every read operation of an opened file; none may panic.

use pelton_weights::{Checkpoint, Keys, Value};

/// Opens the bytes and, if they are a model, reads all metadata and tensors. Returns whether
/// they are a model.
pub(crate) fn exercise(bytes: Vec<u8>) -> bool {
    let Ok(model) = Checkpoint::from_bytes("any", bytes) else { return false };
    let metadata = model.metadata();
    for (key, value) in metadata.iter() {
        walk(value);
        let _ = (metadata.string(key), metadata.u32(key), metadata.f32(key), metadata.bool(key));
        let _ = (metadata.opt_f32_array(key), metadata.opt_i32_array(key));
        if let Ok(strings) = metadata.string_array(key) {
            let len = strings.len();
            assert_eq!(strings.count(), len);
        }
    }
    for tensor in model.tensors() {
        let found = model.require(tensor.name, tensor.shape).map(|found| found.bytes.as_ptr());
        assert_eq!(found.ok(), Some(tensor.bytes.as_ptr()));
        assert_eq!(tensor.decode().len(), tensor.row_len() * tensor.rows());
    }
    if let Ok(keys) = Keys::new(metadata) {
        let _ = (keys.opt_sizes("feed_forward_length", 2, 9), keys.opt_flags("pattern", 2));
    }
    true
}

fn walk(value: &Value) {
    if let Value::Array(array) = value {
        let mut count = 0;
        for item in array.values() {
            walk(&item);
            count += 1;
        }
        assert_eq!(count, array.len());
    }
}
