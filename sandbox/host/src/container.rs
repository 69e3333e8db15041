//! What a container is created with: the hardening, and what each part of it costs a command.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits,
};

use crate::engine::{Brand, Engine};
use crate::guest_program;
use crate::labels;
use crate::options::SandboxOptions;

/// Where the files of a sample are.
pub(crate) const FILES_PATH: &str = "/shared_files";

/// What apt, dpkg, pip and useradd need of root. Not among them: NET_RAW (no ping, no raw sockets), MKNOD, AUDIT_WRITE,
/// SETPCAP, SYS_CHROOT. KILL lets PID 1 signal processes of other users.
const CAPABILITIES: [&str; 9] =
    ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETUID"];

/// Processes of one user of the host, by Podman's containers: no bound in practice, since the cgroup's is far below.
const PODMAN_PROCESSES: u64 = 32_768;

/// Size of `/tmp` for each file it may have: one page. The kernel's own limit follows the host's memory and lets empty
/// files take more kernel memory than the container may use.
const TMP_BYTES_PER_FILE: u64 = 4096;

pub(crate) fn body(options: &SandboxOptions, engine: &Engine, files: Option<&Path>) -> ContainerCreateBody {
    let environment = SandboxOptions::DEFAULT_ENVIRONMENT
        .iter()
        .chain(options.network.environment())
        .filter(|(name, _)| !options.environment.contains_key(*name))
        .map(|(name, value)| format!("{name}={value}"))
        .chain(options.environment.iter().map(|(name, value)| format!("{name}={value}")))
        .collect();
    ContainerCreateBody {
        image: Some(options.image.clone()),
        entrypoint: Some(vec![guest_program::PATH.to_owned()]),
        cmd: Some(Vec::new()),
        hostname: Some("sandbox".to_owned()),
        // Root inside, without most of its powers: pip and apt need it.
        user: Some("0:0".to_owned()),
        working_dir: Some("/workspace".to_owned()),
        env: Some(environment),
        labels: Some(labels::all(&options.labels)),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        open_stdin: Some(true),
        // Ties the container to its owner: the engine closes the guest's input when our connection closes.
        stdin_once: Some(true),
        tty: Some(false),
        // PID 1 ignores every signal but this one; waiting for it would only delay the engine's own end.
        stop_signal: Some("SIGKILL".to_owned()),
        stop_timeout: Some(1),
        healthcheck: Some(bollard::models::HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..Default::default()
        }),
        host_config: Some(host_config(options, engine, files)),
        ..Default::default()
    }
}

fn host_config(options: &SandboxOptions, engine: &Engine, files: Option<&Path>) -> HostConfig {
    let limits = &options.limits;
    let memory = integer(limits.memory_bytes);
    let mut ulimits = vec![
        ulimit("nofile", limits.open_files, limits.open_files.saturating_mul(2)),
        ulimit("core", 0, 0),
        ulimit("fsize", limits.file_bytes, limits.file_bytes),
    ];
    let inodes = match engine.brand {
        Brand::Docker => format!(",nr_inodes={}", limits.tmp_bytes / TMP_BYTES_PER_FILE),
        Brand::Podman => {
            // It would ask for 1048576, which a host that may not raise limits refuses.
            ulimits.push(ulimit("nproc", PODMAN_PROCESSES, PODMAN_PROCESSES));
            // It refuses the option.
            String::new()
        }
    };
    HostConfig {
        network_mode: Some(options.network.mode().to_owned()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(CAPABILITIES.map(str::to_owned).to_vec()),
        // Set-user-id programs and file capabilities gain nothing.
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        privileged: Some(false),
        pids_limit: Some(limits.processes.into()),
        memory: Some(memory),
        // The same number means no swap.
        memory_swap: Some(memory),
        nano_cpus: Some((limits.cpus.min(engine.processors) * 1e9) as i64),
        ulimits: Some(ulimits),
        // The engine's default for tmpfs is noexec, which breaks builds by pip and compiled test programs.
        tmpfs: Some(HashMap::from([(
            "/tmp".to_owned(),
            format!("rw,exec,nosuid,nodev,size={}{inodes},mode=1777", limits.tmp_bytes),
        )])),
        shm_size: Some(integer(limits.shm_bytes)),
        mounts: files.map(|folder| vec![read_only_mount(folder)]),
        // Otherwise the engine would write every frame to a log file on the host.
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        auto_remove: Some(true),
        // The guest is the init.
        init: Some(false),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        runtime: options.runtime.clone(),
        ..Default::default()
    }
}

fn read_only_mount(folder: &Path) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(folder.to_string_lossy().into_owned()),
        target: Some(FILES_PATH.to_owned()),
        read_only: Some(true),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn ulimit(name: &str, soft: u64, hard: u64) -> ResourcesUlimits {
    ResourcesUlimits { name: Some(name.to_owned()), soft: Some(integer(soft)), hard: Some(integer(hard)) }
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
