//! Bare metal or a guest, and of which hypervisor.
//!
//! Rates of a guest and of its host differ if exits are frequent, above all for inter-processor
//! interrupts and therefore TLB shootdowns, so every record contains the hypervisor.

use std::path::Path;

use super::read_line;

/// The name of the hypervisor that this machine is a guest of, or `unknown hypervisor`; `None` if
/// no hypervisor is detected.
pub fn hypervisor() -> Option<String> {
    let hinted = || {
        read_line("/sys/hypervisor/type").or_else(|| firmware_name(Path::new("/sys/class/dmi/id")))
    };
    match processor_says() {
        Some(Verdict::BareMetal) => None,
        Some(Verdict::Guest(Some(name))) => Some(name.to_owned()),
        Some(Verdict::Guest(None)) => {
            Some(hinted().unwrap_or_else(|| "unknown hypervisor".to_owned()))
        }
        None => hinted(),
    }
}

/// What the processor itself reports, if anything.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
enum Verdict {
    BareMetal,
    Guest(Option<&'static str>),
}

/// Hypervisors on x86 set a bit that the kernel shows as the CPU flag `hypervisor`, and sign
/// with their name.
#[cfg(target_arch = "x86_64")]
fn processor_says() -> Option<Verdict> {
    use std::arch::x86_64::__cpuid;
    /// Leaf 1, ECX: the bit that processors themselves keep 0.
    const HYPERVISOR_BIT: u32 = 1 << 31;
    const HYPERVISOR_LEAF: u32 = 0x4000_0000;

    #[allow(unused_unsafe, reason = "the call is unsafe in the oldest supported toolchain")]
    // SAFETY: every x86-64 processor has the instruction, and it only writes registers.
    let (features, signature) = unsafe { (__cpuid(1), __cpuid(HYPERVISOR_LEAF)) };
    if features.ecx & HYPERVISOR_BIT == 0 {
        return Some(Verdict::BareMetal);
    }
    let signature: Vec<u8> = [signature.ebx, signature.ecx, signature.edx]
        .iter()
        .flat_map(|register| register.to_le_bytes())
        .collect();
    Some(Verdict::Guest(signature_name(&signature)))
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_says() -> Option<Verdict> {
    None
}

#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn signature_name(signature: &[u8]) -> Option<&'static str> {
    Some(match signature {
        b"KVMKVMKVM\0\0\0" => "KVM",
        b"Microsoft Hv" => "Hyper-V",
        b"VMwareVMware" => "VMware",
        b"XenVMMXenVMM" => "Xen",
        b"TCGTCGTCGTCG" => "QEMU (emulated)",
        b"VBoxVBoxVBox" => "VirtualBox",
        b"bhyve bhyve " => "bhyve",
        b"ACRNACRNACRN" => "ACRN",
        _ => return None,
    })
}

/// The firmware's name of the machine, if it reveals a hypervisor. This is the only hint on
/// architectures without `cpuid`.
fn firmware_name(dmi: &Path) -> Option<String> {
    const BETRAYERS: [(&str, &str); 8] = [
        ("KVM", "KVM"),
        ("QEMU", "QEMU"),
        ("VMware", "VMware"),
        ("VirtualBox", "VirtualBox"),
        ("innotek", "VirtualBox"),
        ("Virtual Machine", "Hyper-V"),
        ("Google Compute Engine", "KVM"),
        ("BHYVE", "bhyve"),
    ];
    let names = ["product_name", "sys_vendor", "bios_vendor"];
    let names: Vec<String> = names.iter().filter_map(|name| read_line(dmi.join(name))).collect();
    let is_metal = names.iter().any(|name| name.ends_with(".metal"));
    let amazon = names.iter().any(|name| name == "Amazon EC2") && !is_metal;
    BETRAYERS
        .iter()
        .find(|(text, _)| names.iter().any(|name| name.contains(text)))
        .map(|(_, hypervisor)| *hypervisor)
        .or(amazon.then_some("KVM"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::write;

    fn firmware(files: &[(&str, &str)]) -> Option<String> {
        let dmi = tempfile::tempdir().unwrap();
        for (name, text) in files {
            write(&dmi.path().join(name), text);
        }
        firmware_name(dmi.path())
    }

    #[test]
    fn firmware_names_betray_a_guest() {
        assert_eq!(firmware(&[("sys_vendor", "QEMU\n")]).as_deref(), Some("QEMU"));
        let azure = [("sys_vendor", "Microsoft Corporation"), ("product_name", "Virtual Machine")];
        assert_eq!(firmware(&azure).as_deref(), Some("Hyper-V"));
        assert_eq!(firmware(&[("sys_vendor", "Dell Inc.")]), None);
    }

    #[test]
    fn a_rented_bare_metal_machine_is_not_a_guest() {
        let virt = [("sys_vendor", "Amazon EC2"), ("product_name", "m7g.large")];
        let metal = [("sys_vendor", "Amazon EC2"), ("product_name", "m7g.metal")];
        assert_eq!(firmware(&virt).as_deref(), Some("KVM"));
        assert_eq!(firmware(&metal), None);
    }

    #[test]
    fn signatures_are_matched_whole() {
        assert_eq!(signature_name(b"KVMKVMKVM\0\0\0"), Some("KVM"));
        assert_eq!(signature_name(b"AuthenticAMD"), None);
    }
}
