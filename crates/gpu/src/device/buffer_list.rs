//! The buffers of a dispatch, by name.

use std::borrow::Cow;

use pelton_graph::Error;

use crate::device::KernelSource;

/// The buffers of a dispatch, by the names of its kernel's bindings and in any order.
#[derive(Clone, Debug, Default)]
pub(crate) struct BufferList<'b>(Vec<(Cow<'static, str>, wgpu::BufferBinding<'b>)>);

impl<'b> BufferList<'b> {
    /// A list of whole buffers.
    pub(crate) fn of(all: impl IntoIterator<Item = (&'static str, &'b wgpu::Buffer)>) -> Self {
        let whole = |(name, buffer): (&'static str, &'b wgpu::Buffer)| {
            (Cow::Borrowed(name), buffer.as_entire_buffer_binding())
        };
        Self(all.into_iter().map(whole).collect())
    }

    /// Adds a whole buffer.
    pub(crate) fn add(&mut self, name: impl Into<Cow<'static, str>>, buffer: &'b wgpu::Buffer) {
        self.add_range(name, buffer.as_entire_buffer_binding());
    }

    /// Adds a range of a buffer.
    pub(crate) fn add_range(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        range: wgpu::BufferBinding<'b>,
    ) {
        self.0.push((name.into(), range));
    }

    /// Adds the buffers of another list.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The buffers in the order of a kernel's bindings.
    ///
    /// # Errors
    /// [`Error::Kernel`] if the list does not have each binding of the kernel once, and no other.
    pub(crate) fn in_order(
        &self,
        label: &str,
        source: &KernelSource,
    ) -> Result<Vec<wgpu::BufferBinding<'b>>, Error> {
        let fail = |what| Error::Kernel { kernel: label.to_owned(), what };
        let bindings = source.bindings();
        let declares = |name: &str| bindings.iter().any(|binding| binding.name == name);
        if let Some((name, _)) = self.0.iter().find(|(name, _)| !declares(name)) {
            return Err(fail(format!("a buffer for '{name}', which it does not declare")));
        }
        let buffer = |name: &str| {
            let mut found = self.0.iter().filter(|(its, _)| its == name);
            match (found.next(), found.next()) {
                (Some((_, buffer)), None) => Ok(buffer.clone()),
                (None, _) => Err(fail(format!("no buffer for '{name}'"))),
                (Some(_), Some(_)) => Err(fail(format!("two buffers for '{name}'"))),
            }
        };
        bindings.iter().map(|binding| buffer(&binding.name)).collect()
    }
}

impl<'b> Extend<(String, wgpu::BufferBinding<'b>)> for BufferList<'b> {
    fn extend<T: IntoIterator<Item = (String, wgpu::BufferBinding<'b>)>>(&mut self, all: T) {
        self.0.extend(all.into_iter().map(|(name, range)| (Cow::Owned(name), range)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::device;

    #[test]
    fn buffers_follow_the_declarations() {
        let Some(device) = device() else { return };
        let [x, y] = [4, 8].map(|bytes| device.buffer("test", bytes).unwrap());
        let source = KernelSource::new(
            "var<storage, read> x: array<f32>;\nvar<storage, read_write> y: array<f32>;\n",
        );
        let ordered = BufferList::of([("y", &y), ("x", &x)]).in_order("k", &source).unwrap();
        assert_eq!(ordered.iter().map(|range| range.buffer).collect::<Vec<_>>(), [&x, &y]);
        for (list, what) in [
            (vec![("x", &x)], "no buffer for 'y'"),
            (vec![("x", &x), ("y", &y), ("x", &y)], "two buffers for 'x'"),
            (vec![("x", &x), ("y", &y), ("z", &y)], "'z', which it does not declare"),
        ] {
            let error = BufferList::of(list).in_order("k", &source).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
