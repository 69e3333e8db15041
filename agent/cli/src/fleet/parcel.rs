//! Messages of any length: what is long is compressed, and what is still too long for a message goes through the object
//! store.

use std::time::Duration;

use async_nats::jetstream::object_store::ObjectStore;
use bytes::Bytes;
use tokio::io::AsyncReadExt;

use super::FleetError;
use super::retry::persist;
use crate::store::artefact_name;

/// Below the 1 MiB that a server takes as it is installed, headers included.
const MAX_MESSAGE_BYTES: usize = 900 * 1024;

/// What is shorter is not worth the time.
const COMPRESSED_FROM_BYTES: usize = 16 * 1024;

/// Nobody sends more than this: neither side may make the other swell.
const MAX_PLAIN_BYTES: u64 = 512 * 1024 * 1024;

/// Of one piece of an object. The library waits for ever for pieces that were taken away since it learnt of them.
const READ_LIMIT: Duration = Duration::from_secs(10);

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
/// The name of an object that holds the rest.
const ELSEWHERE: u8 = 2;

pub(super) async fn pack(
    objects: &ObjectStore,
    content: &[u8],
    limit: Duration,
) -> Result<Bytes, FleetError> {
    let packed = compress(content)?;
    if packed.len() <= MAX_MESSAGE_BYTES {
        return Ok(packed);
    }
    let name = artefact_name("parcel", &packed);
    put(objects, &name, &packed, limit).await?;
    Ok([&[ELSEWHERE], name.as_bytes()].concat().into())
}

pub(super) async fn unpack(
    objects: &ObjectStore,
    message: &[u8],
    limit: Duration,
) -> Result<Vec<u8>, FleetError> {
    match message.split_first() {
        Some((&ELSEWHERE, name)) => {
            let name = String::from_utf8_lossy(name).into_owned();
            unpacked(&get(objects, &name, limit).await?)
        }
        _ => unpacked(message),
    }
}

fn compress(content: &[u8]) -> Result<Bytes, FleetError> {
    if content.len() < COMPRESSED_FROM_BYTES {
        return Ok([&[PLAIN], content].concat().into());
    }
    let mut packed = vec![ZSTD];
    packed.extend(zstd::encode_all(content, zstd::DEFAULT_COMPRESSION_LEVEL)?);
    Ok(packed.into())
}

fn unpacked(message: &[u8]) -> Result<Vec<u8>, FleetError> {
    match message.split_first() {
        Some((&PLAIN, content)) => Ok(content.to_vec()),
        Some((&ZSTD, content)) => {
            use std::io::Read as _;
            let mut plain = Vec::new();
            let mut decoder = zstd::Decoder::new(content)?.take(MAX_PLAIN_BYTES + 1);
            decoder.read_to_end(&mut plain)?;
            if plain.len() as u64 > MAX_PLAIN_BYTES {
                return Err(FleetError::Unreadable("a message is too long".to_owned()));
            }
            Ok(plain)
        }
        _ => Err(FleetError::Unreadable("a message has no known form".to_owned())),
    }
}

/// Stores an object unless it is there: names stand for contents.
pub(super) async fn put(
    objects: &ObjectStore,
    name: &str,
    content: &[u8],
    limit: Duration,
) -> Result<(), FleetError> {
    persist(&format!("storing `{name}`"), limit, || async {
        if objects.info(name).await.is_ok_and(|info| !info.deleted) {
            return Ok(());
        }
        let mut content = content;
        objects.put(name, &mut content).await.map(|_| ()).map_err(|error| error.to_string())
    })
    .await
}

pub(super) async fn get(objects: &ObjectStore, name: &str, limit: Duration) -> Result<Vec<u8>, FleetError> {
    let content = persist(&format!("fetching `{name}`"), limit, || async {
        let mut content = Vec::new();
        let object = objects.get(name).await.map_err(|error| error.to_string())?;
        let mut object = object.take(MAX_PLAIN_BYTES + 1);
        loop {
            // Checks the digest at the end.
            let read = tokio::time::timeout(READ_LIMIT, object.read_buf(&mut content)).await;
            let read = read.map_err(|_| format!("nothing came for {} s", READ_LIMIT.as_secs()))?;
            if read.map_err(|error| error.to_string())? == 0 {
                return Ok::<_, String>(content);
            }
        }
    })
    .await?;
    match content.len() as u64 > MAX_PLAIN_BYTES {
        true => Err(FleetError::Unreadable(format!("`{name}` is longer than {MAX_PLAIN_BYTES} bytes"))),
        false => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back_and_what_is_long_is_shorter_on_the_way() {
        for length in [0, 1, COMPRESSED_FROM_BYTES, 3_000_000] {
            let content = vec![b'x'; length];
            let packed = compress(&content).unwrap();
            assert!(packed.len() <= length.min(COMPRESSED_FROM_BYTES) + 1, "{length}: {}", packed.len());
            assert_eq!(unpacked(&packed).unwrap(), content);
        }
        assert!(matches!(unpacked(&[]), Err(FleetError::Unreadable(_))));
        assert!(matches!(unpacked(&[9, 9]), Err(FleetError::Unreadable(_))));
    }
}
