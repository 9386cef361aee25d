//! Why there is no GPU: the loader of Vulkan and its drivers.

use std::path::{Path, PathBuf};

/// Folders of libraries on Linux.
const FOLDERS: [&str; 8] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/lib64",
    "/lib",
    "/run/opengl-driver/lib",
];
/// The loader's file.
const LOADER: &str = "libvulkan.so.1";
/// Folders in which drivers say where they are.
const DRIVERS: [&str; 4] = [
    "/usr/share/vulkan/icd.d",
    "/etc/vulkan/icd.d",
    "/usr/local/share/vulkan/icd.d",
    "/run/opengl-driver/share/vulkan/icd.d",
];

/// Why no adapter was found, and what to install.
pub(super) fn missing() -> String {
    if !cfg!(target_os = "linux") {
        return "no GPU was found through Vulkan, Metal or DX12: models run on the CPU".to_owned();
    }
    let more = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders = FOLDERS.iter().map(PathBuf::from).chain(std::env::split_paths(&more));
    let has_nvidia = Path::new("/dev/nvidiactl").exists();
    sentence(
        folders.into_iter().any(|folder| folder.join(LOADER).exists()),
        DRIVERS
            .iter()
            .any(|folder| Path::new(folder).read_dir().is_ok_and(|mut d| d.next().is_some())),
        has_nvidia,
    )
}

fn sentence(has_loader: bool, has_driver: bool, has_nvidia: bool) -> String {
    match (has_loader, has_driver, has_nvidia) {
        (false, ..) => format!(
            "the loader of Vulkan, {LOADER}, is missing: install libvulkan1 (Debian, Ubuntu), vulkan-loader \
             (Fedora) or vulkan-icd-loader (Arch); models run on the CPU until then"
        ),
        (true, false, true) => {
            "NVIDIA's kernel driver is there, and its driver for Vulkan is not: install libnvidia-gl of the same \
             version; a container needs NVIDIA_DRIVER_CAPABILITIES=all"
                .to_owned()
        }
        (true, false, false) => {
            "the loader of Vulkan has no driver: install mesa-vulkan-drivers for AMD and Intel, or NVIDIA's \
             driver; models run on the CPU until then"
                .to_owned()
        }
        (true, true, _) => {
            "the drivers of Vulkan find no GPU: `vulkaninfo --summary` (vulkan-tools) says why; models run on \
             the CPU"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::sentence;

    #[test]
    fn the_missing_part_is_named() {
        assert!(sentence(false, false, false).contains("libvulkan1"));
        assert!(sentence(false, true, true).contains("libvulkan1"));
        assert!(sentence(true, false, true).contains("NVIDIA_DRIVER_CAPABILITIES"));
        assert!(sentence(true, false, false).contains("mesa-vulkan-drivers"));
        assert!(sentence(true, true, false).contains("vulkaninfo"));
    }
}
