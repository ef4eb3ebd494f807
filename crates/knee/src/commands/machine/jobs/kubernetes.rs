//! An indexed job of Kubernetes, as a manifest for `kubectl apply`.

use knee_host::digest::sha256;
use serde_json::{Value, json};

use super::directory::SCRIPT;
use crate::exit::ensure_usage;

/// Largest content of a ConfigMap, which holds the list and the script.
const MAX_CONFIG: usize = 1 << 20;
/// How many digits of the digest of a list name its job.
const NAME_DIGITS: usize = 10;
/// Where the pods find the list and the script.
const CONFIG: &str = "/knee-jobs";
/// Where the pods find the volume.
const VOLUME: &str = "/knee-out";

/// What a manifest depends on.
pub(super) struct Manifest<'a> {
    pub(super) commands: &'a [String],
    pub(super) image: &'a str,
    /// The persistent volume claim for results.
    pub(super) claim: &'a str,
    /// Pods at a time.
    pub(super) most: Option<usize>,
    /// Whether no two pods run on the same node.
    pub(super) is_exclusive: bool,
    pub(super) retries: u32,
}

impl Manifest<'_> {
    /// A list of a ConfigMap and a Job. The same list of jobs has the same names, so that `kubectl apply` does not
    /// run it twice at the same time.
    pub(super) fn json(&self) -> anyhow::Result<Value> {
        let list = self.commands.join("\n") + "\n";
        ensure_usage!(
            list.len() + SCRIPT.len() <= MAX_CONFIG,
            "the list has {} bytes, and a ConfigMap of Kubernetes holds at most {MAX_CONFIG}; divide \
             the list, or move the commands into scripts of the image",
            list.len()
        );
        let name = format!("knee-jobs-{}", &sha256(&list)[..NAME_DIGITS]);
        let metadata = json!({ "name": name, "labels": { "app": name } });
        let config = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": { "list": list, "job": SCRIPT },
        });
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {
                "completionMode": "Indexed",
                "completions": self.commands.len(),
                "parallelism": self.most.unwrap_or(self.commands.len()).min(self.commands.len()),
                // Needs Kubernetes 1.29. A job that keeps failing does not end the others.
                "backoffLimitPerIndex": self.retries,
                "template": {
                    "metadata": { "labels": { "app": name } },
                    "spec": self.pod(&name),
                },
            },
        });
        Ok(json!({ "apiVersion": "v1", "kind": "List", "items": [config, job] }))
    }

    fn pod(&self, name: &str) -> Value {
        // A job that is done is not run again if the manifest is applied again.
        let out = format!("{VOLUME}/{name}");
        let run = format!(
            "job=$((JOB_COMPLETION_INDEX + 1)); grep -qs '^0 ' {out}/jobs/$job.status || \
             exec sh {CONFIG}/job $job {out}"
        );
        let mut pod = json!({
            "restartPolicy": "Never",
            "containers": [{
                "name": "job",
                "image": self.image,
                "command": ["sh", "-c", run],
                "volumeMounts": [
                    { "name": "jobs", "mountPath": CONFIG },
                    { "name": "out", "mountPath": VOLUME },
                ],
            }],
            "volumes": [
                { "name": "jobs", "configMap": { "name": name } },
                { "name": "out", "persistentVolumeClaim": { "claimName": self.claim } },
            ],
        });
        if self.is_exclusive {
            pod["affinity"] = json!({
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "labelSelector": { "matchLabels": { "app": name } },
                        "topologyKey": "kubernetes.io/hostname",
                    }],
                },
            });
        }
        pod
    }
}
