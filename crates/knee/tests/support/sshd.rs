//! A private sshd.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::{Scratch, skip, wait_until};

/// Where Debian installs the server, which most users do not have on their PATH.
const SSHD: &str = "/usr/sbin/sshd";
/// sshd started by root needs this empty directory.
const SEPARATION: &str = "/run/sshd";

/// A server that the names `alpha` and `beta` lead to. The name `gone` leads to a port without a server.
pub(crate) struct Server {
    sshd: Child,
    pub(crate) scratch: Scratch,
    /// The directory of a program `ssh` with the configuration of this server.
    bin: PathBuf,
}

impl Server {
    /// `None`, with a printed reason, if a program is missing.
    pub(crate) fn start() -> Option<Self> {
        for program in [SSHD, "/usr/bin/ssh", "/usr/bin/ssh-keygen"] {
            if !Path::new(program).exists() {
                skip("ssh", format_args!("{program} is missing"));
                return None;
            }
        }
        let _ = fs::create_dir(SEPARATION);
        let scratch = Scratch::new();
        let dir = scratch.path();
        for key in ["host", "user"] {
            let mut keygen = Command::new("/usr/bin/ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(dir.join(key));
            assert!(keygen.status().unwrap().success());
        }
        fs::copy(dir.join("user.pub"), dir.join("authorized")).unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (port, unused) = (free(), free());
        let here = dir.display();
        let of_server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nPidFile none\nUsePAM no\n\
             StrictModes no\nPermitRootLogin yes\nAuthorizedKeysFile {here}/authorized\n\
             SetEnv TMPDIR={here}/work\n"
        );
        fs::write(dir.join("sshd_config"), of_server).unwrap();
        let of_client = format!(
            "Host *\nHostName 127.0.0.1\nPort {port}\nIdentityFile {here}/user\n\
             IdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile {here}/known\n"
        );
        let gone = format!("Host gone\nPort {unused}\n");
        fs::write(dir.join("ssh_config"), gone + &of_client).unwrap();
        let bin = dir.join("bin");
        fs::create_dir(&bin).unwrap();
        let ssh = format!("#!/bin/sh\nexec /usr/bin/ssh -F {here}/ssh_config \"$@\"\n");
        fs::write(bin.join("ssh"), ssh).unwrap();
        fs::set_permissions(bin.join("ssh"), Permissions::from_mode(0o755)).unwrap();
        let mut sshd = Command::new(SSHD);
        sshd.args(["-D", "-e", "-f"]).arg(dir.join("sshd_config"));
        sshd.stderr(fs::File::create(dir.join("sshd.log")).unwrap());
        let sshd = sshd.spawn().unwrap();
        wait_until("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { sshd, scratch, bin })
    }

    pub(crate) fn use_in<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("PATH", format!("{}:{}", self.bin.display(), std::env::var("PATH").unwrap()))
    }

    /// The temporary directories of connections.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        self.scratch.leftovers()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.scratch.path().join("sshd.log"));
            println!("sshd: {}", log.unwrap_or_default());
        }
    }
}
