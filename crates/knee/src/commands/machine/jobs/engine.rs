//! What runs the jobs.

use std::str::FromStr;

use knee_host::ssh::{self, Host};

/// The value of `--on`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Engine {
    /// Processes on this machine.
    Local,
    /// Hosts that ssh(1) can reach.
    Ssh(Vec<Host>),
    /// An array job of Slurm.
    Slurm,
    /// An indexed job of Kubernetes.
    Kubernetes,
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => return Ok(Self::Local),
            "slurm" => return Ok(Self::Slurm),
            "k8s" => return Ok(Self::Kubernetes),
            _ => {}
        }
        let Some(hosts) = ssh::listed(text) else {
            return Err("must be local, ssh:HOST,HOST, slurm or k8s".to_owned());
        };
        let hosts = hosts.collect::<Result<Vec<Host>, _>>().map_err(|error| error.to_string())?;
        if (1..hosts.len()).any(|nr| hosts[..nr].contains(&hosts[nr])) {
            return Err("a host appears twice; -j sets the jobs at a time on each host".to_owned());
        }
        Ok(Self::Ssh(hosts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_separated_by_commas() {
        let hosts = ["a", "me@b"].map(|name| Host::named(name).unwrap()).to_vec();
        assert_eq!("ssh:a,me@b".parse(), Ok(Engine::Ssh(hosts)));
        for text in ["ssh", "ssh:", "ssh:a,", "ssh:-oProxyCommand=x", "ssh:a,a", "SLURM", ""] {
            assert!(text.parse::<Engine>().is_err(), "{text}");
        }
    }
}
