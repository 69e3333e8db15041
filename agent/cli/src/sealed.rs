//! A recording for others to replay: one file, encrypted to a key, without the truth. GAIA's questions must not be on the
//! web in plain text, and a recording holds them.
//!
//! The file is a tar archive of the run directory, compressed (zstd) and then encrypted (age, version 1), so `age` and
//! `tar` read it too.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};
use fs_err as fs;

use crate::store::{RUN_FILE, RUN_FORMAT_VERSION, RunDirectory, RunRecord, SampleKey, StoreError};

/// Of zstd: half a minute for a whole run, once.
const COMPRESSION_LEVEL: i32 = 9;

/// What stands at the beginning of an identity file's line that holds one.
const IDENTITY_PREFIX: &str = "AGE-SECRET-KEY-1";

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("`{0}` is no age key: one begins with `age1`, and `age-keygen` makes a pair")]
    NoKey(String),
    #[error(
        "that is a secret key, which opens recordings: what seals them is its public key, which begins with `age1` (`age-keygen -y FILE` prints it)"
    )]
    SecretKey,
    #[error(
        "`{0}` holds no age identity: a line that begins with `AGE-SECRET-KEY-1`, as `age-keygen` writes it"
    )]
    NoIdentity(PathBuf),
    /// Another key, or no sealed recording.
    #[error("failed to open `{}`: {reason}", path.display())]
    NotOpened { path: PathBuf, reason: String },
    #[error("run `{0}` is there already")]
    Exists(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Who alone can read what is sealed.
pub fn read_key(text: &str) -> Result<Recipient, SealError> {
    let text = text.trim();
    // It would be in a log for good.
    if text.to_ascii_uppercase().starts_with(IDENTITY_PREFIX) {
        return Err(SealError::SecretKey);
    }
    Recipient::from_str(text).map_err(|_| SealError::NoKey(text.to_owned()))
}

/// The secret keys of a file, as `age-keygen` writes it.
pub fn read_identities(file: &Path) -> Result<Vec<Identity>, SealError> {
    let text = fs::read_to_string(file)?;
    let lines = text.lines().map(str::trim).filter(|line| line.starts_with(IDENTITY_PREFIX));
    let identities: Vec<Identity> = lines.filter_map(|line| Identity::from_str(line).ok()).collect();
    if identities.is_empty() { Err(SealError::NoIdentity(file.to_owned())) } else { Ok(identities) }
}

/// Writes everything that a replay needs. The verdicts go with the truths: an answer that is called right is one.
pub fn seal(
    run: &RunDirectory,
    record: &RunRecord,
    key: &Recipient,
    out: &mut dyn Write,
) -> Result<(), SealError> {
    let encryptor =
        Encryptor::with_recipients(std::iter::once(key as &dyn age::Recipient)).map_err(io::Error::other)?;
    let encrypted = encryptor.wrap_output(out)?;
    let mut archive = tar::Builder::new(zstd::Encoder::new(encrypted, COMPRESSION_LEVEL)?);
    let mut without_truth = record.clone();
    without_truth.dataset.has_truth = false;
    append(
        &mut archive,
        Path::new(RUN_FILE),
        &serde_json::to_vec_pretty(&without_truth).map_err(io::Error::from)?,
    )?;
    append_folder(&mut archive, run.path(), &run.artefacts())?;
    for entry in run.entries(record) {
        let entry = entry?;
        let sample = run.sample(&SampleKey { task_id: entry.planned.task_id, epoch: entry.epoch });
        let events = sample.events_path();
        if !events.is_file() {
            continue;
        }
        append(&mut archive, relative(run.path(), &events), &fs::read(&events)?)?;
        append_folder(&mut archive, run.path(), &sample.artefacts())?;
        if let Some(mut result) = entry.result {
            result.score = None;
            let text = serde_json::to_vec_pretty(&result).map_err(io::Error::from)?;
            append(&mut archive, relative(run.path(), &sample.result_path()), &text)?;
        }
    }
    archive.into_inner()?.finish()?.finish()?.flush()?;
    Ok(())
}

fn relative<'a>(run: &Path, path: &'a Path) -> &'a Path {
    path.strip_prefix(run).unwrap_or(path)
}

/// Of the same content always the same bytes: no owner, no time.
fn append(archive: &mut tar::Builder<impl Write>, name: &Path, content: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content)
}

/// The files of a folder, which need not be there.
fn append_folder(archive: &mut tar::Builder<impl Write>, run: &Path, folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    paths
        .iter()
        .filter(|path| path.is_file())
        .try_for_each(|path| append(archive, relative(run, path), &fs::read(path)?))
}

/// Makes a run of a sealed recording in the folder of runs.
pub fn unseal(file: &Path, identities: &[Identity], runs: &Path) -> Result<PathBuf, SealError> {
    let not_opened = |reason: String| SealError::NotOpened { path: file.to_owned(), reason };
    let decryptor = Decryptor::new(io::BufReader::new(fs::File::open(file)?)).map_err(|error| {
        not_opened(format!(
            "it is no sealed recording, or its beginning is damaged ({error}); `gaia export RUN --format sealed` writes one"
        ))
    })?;
    let plain = decryptor.decrypt(identities.iter().map(|identity| identity as &dyn age::Identity)).map_err(
        |error| match error {
            DecryptError::NoMatchingKeys => not_opened(
                "it is sealed to another key; give the identity of the key that it was sealed to".to_owned(),
            ),
            error => not_opened(format!("its beginning is damaged ({error}); get the file again")),
        },
    )?;
    fs::create_dir_all(runs)?;
    // Hidden until it is whole, and gone when it never is.
    let folder = tempfile::Builder::new().prefix(".unsealed-").tempdir_in(runs)?;
    let mut is_damaged = false;
    let plain = Watched { inner: plain, is_damaged: &mut is_damaged };
    let unpacked = zstd::Decoder::new(plain).and_then(|archive| unpack(archive, folder.path()));
    match unpacked {
        Ok(()) => {}
        Err(error) if is_damaged => {
            return Err(not_opened(format!("it is damaged or cut off ({error}); get the file again")));
        }
        Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error.into()),
        Err(error) => return Err(not_opened(format!("what it holds is no recording of a run ({error})"))),
    }
    let record = RunDirectory::open(folder.path()).record().map_err(|error| match error {
        StoreError::Newer { found, .. } => not_opened(format!(
            "the run in it has format version {found}, and this program knows versions up to {RUN_FORMAT_VERSION}; use the \
             gaia that wrote it"
        )),
        StoreError::Damaged { reason, .. } => not_opened(format!("its `{RUN_FILE}` is not to be read: {reason}")),
        StoreError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            not_opened("what it holds is no recording of a run".to_owned())
        }
        error => error.into(),
    })?;
    let id = record.id;
    let path = runs.join(&id);
    // An id is a name, whoever wrote it.
    if !matches!(Path::new(&id).components().collect::<Vec<_>>()[..], [Component::Normal(_)]) {
        return Err(not_opened(format!("`{id}` is no id of a run")));
    }
    if path.exists() {
        return Err(SealError::Exists(path));
    }
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    fs::rename(folder.keep(), &path)?;
    Ok(path)
}

/// What is read by others, who do not tell whose fault a failure is.
struct Watched<'a, R> {
    inner: R,
    is_damaged: &'a mut bool,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).inspect_err(|_| *self.is_damaged = true)
    }
}

/// Files alone, and none outside of the folder, whatever the archive says.
fn unpack(archive: impl Read, folder: &Path) -> io::Result<()> {
    let mut archive = tar::Archive::new(archive);
    archive.set_preserve_permissions(false);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let is_plain = name.components().all(|component| matches!(component, Component::Normal(_)));
        if !is_plain || !entry.header().entry_type().is_file() || !entry.unpack_in(folder)? {
            let reason = format!("it holds `{}`, which is no file of a run", name.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
    }
    // The end of an archive is not the end of the file, and only there is it known to be whole.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::sample;
    use crate::scoring::score_answer;
    use crate::store::{test_record, test_result};

    fn sealed(folder: &Path) -> (Identity, PathBuf) {
        let record = test_record(&[("a", 1), ("b", 2), ("never-begun", 3)]);
        let (run, _lock) = RunDirectory::create(&folder.join("runs"), &record).unwrap();
        for task in ["a", "b"] {
            let directory = run.sample(&SampleKey { task_id: task.into(), epoch: 1 });
            let log = directory.start_attempt(Default::default()).unwrap();
            let text = format!("{} of {task}", sample(task).question);
            gaia_agent::EventSink::emit(&log, gaia_agent::AgentEvent::Prompted { step: 1, text });
            gaia_agent::EventSink::keep(&log, &"a long output ".repeat(100)).unwrap();
            gaia_agent::EventSink::keep_offer(&log, "[]").unwrap();
            log.close().unwrap();
            let score = score_answer(Some("42"), Some("the-hidden-truth"));
            directory
                .commit(&crate::store::SampleResult { task_id: task.into(), score, ..test_result() })
                .unwrap();
        }
        let identity = Identity::generate();
        let file = folder.join("run.age");
        let mut out = fs::File::create(&file).unwrap();
        seal(&run, &record, &identity.to_public(), &mut out).unwrap();
        (identity, file)
    }

    #[test]
    fn what_is_sealed_is_read_with_the_key_alone_and_the_truth_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (identity, file) = sealed(folder.path());
        let bytes = fs::read(&file).unwrap();
        for secret in ["What is it?", "task_id", "the-hidden-truth"] {
            assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{secret}");
        }
        let runs = folder.path().join("other");
        let error = unseal(&file, &[Identity::generate()], &runs).unwrap_err();
        assert!(error.to_string().contains("another key"), "{error}");
        assert_eq!(fs::read_dir(&runs).map_or(0, Iterator::count), 0, "nothing is left of it");

        let path = unseal(&file, std::slice::from_ref(&identity), &runs).unwrap();
        let run = RunDirectory::open(&path);
        let record = run.record().unwrap();
        assert!(!record.dataset.has_truth);
        let entries: Vec<_> = run.entries(&record).map(Result::unwrap).collect();
        assert_eq!(entries.iter().filter(|entry| entry.result.is_some()).count(), 2);
        let mut folders = vec![path];
        let mut files = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                    assert!(!text.contains("the-hidden-truth"), "{}", path.display());
                    files += 1;
                }
            }
        }
        assert_eq!(
            files,
            1 + 1 + 2 * 3,
            "the record, the offer; of each sample its events, result and output"
        );
        let again = unseal(&file, &[identity], &runs).unwrap_err();
        assert!(matches!(again, SealError::Exists(_)), "{again}");
    }

    #[test]
    fn a_file_that_was_cut_or_is_none_makes_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let (identity, file) = sealed(folder.path());
        let bytes = fs::read(&file).unwrap();
        let runs = folder.path().join("other");
        let mut turned = bytes.clone();
        *turned.last_mut().unwrap() ^= 1;
        let mut head = bytes.clone();
        head[bytes.windows(3).position(|part| part == b"---").unwrap() + 5] ^= 1;
        let other = |content: &[u8]| {
            let to = identity.to_public();
            let encryptor = Encryptor::with_recipients(std::iter::once(&to as &dyn age::Recipient)).unwrap();
            let mut sealed = Vec::new();
            let mut writer = encryptor.wrap_output(&mut sealed).unwrap();
            writer.write_all(content).unwrap();
            writer.finish().unwrap();
            sealed
        };
        let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        append(&mut archive, Path::new("a.txt"), b"no run").unwrap();
        let archive = archive.into_inner().unwrap().finish().unwrap();
        for (content, reason) in [
            (bytes[..bytes.len() - 20].to_vec(), "damaged or cut off"),
            (turned, "damaged or cut off"),
            (head, "beginning is damaged"),
            (bytes[..50].to_vec(), "no sealed recording, or its beginning is damaged"),
            (b"hello".to_vec(), "no sealed recording"),
            (Vec::new(), "no sealed recording"),
            (other(b"a letter"), "what it holds is no recording of a run"),
            (other(&archive), "what it holds is no recording of a run"),
        ] {
            fs::write(&file, &content).unwrap();
            let error = unseal(&file, std::slice::from_ref(&identity), &runs).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(file.to_str().unwrap()), "{reason}: {error}");
            assert!(!error.contains(".unsealed-"), "{error}");
        }
        let left = fs::read_dir(&runs).map_or(0, Iterator::count);
        assert_eq!(left, 0);
    }

    #[test]
    fn an_archive_puts_nothing_outside_of_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["../x", "/tmp/x", "a/../../x"] {
            let mut archive = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            header.set_size(1);
            // As a hostile writer would: the library itself refuses such names.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, b"x".as_slice()).unwrap();
            let inner = folder.path().join("inner");
            fs::create_dir_all(&inner).unwrap();
            unpack(archive.into_inner().unwrap().as_slice(), &inner).unwrap_err();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{name}");
        }
    }

    #[test]
    fn keys_are_told_from_other_text() {
        let identity = Identity::generate();
        read_key(&format!(" {}\n", identity.to_public())).unwrap();
        assert!(read_key("age1nonsense").unwrap_err().to_string().contains("age-keygen"));
        // The whole of it is nobody's business, least of all that of a log.
        let refused = read_key("AGE-SECRET-KEY-1QQQQQQQQQQ").unwrap_err().to_string();
        assert!(refused.contains("secret key") && !refused.contains("QQQQ"), "{refused}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key.txt");
        fs::write(&file, "# public key: age1…\nnothing\n").unwrap();
        assert!(matches!(read_identities(&file), Err(SealError::NoIdentity(_))));
        let secret = age::secrecy::ExposeSecret::expose_secret(&identity.to_string()).to_owned();
        fs::write(&file, format!("# a comment\n{secret}\n")).unwrap();
        assert_eq!(read_identities(&file).unwrap().len(), 1);
    }
}
