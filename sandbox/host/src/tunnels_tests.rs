use std::net::SocketAddr;

use gaia_sandbox_protocol::Decoder;
use proptest::prelude::*;
use tokio::net::TcpListener;

use super::*;
use crate::egress::EgressOptions;
use crate::network::Network;

/// Tunnels to a proxy that lets loopback through, and what they would write to the guest.
fn tunnels(idle_timeout: Duration) -> (Tunnels, mpsc::Receiver<Vec<u8>>) {
    let options = EgressOptions {
        allow_private: vec!["127.0.0.0/8".parse().unwrap()],
        idle_timeout,
        ..EgressOptions::default()
    };
    let egress = Egress::new(Network::On, &options).unwrap();
    let (lane, pieces) = mpsc::channel(4);
    (Tunnels::new(Arc::new(egress), lane, CancellationToken::new()), pieces)
}

fn decode(bytes: &[u8]) -> (u32, HostFrame) {
    let mut decoder = Decoder::default();
    decoder.push(bytes);
    let raw = decoder.next_frame().unwrap().unwrap();
    (raw.id, HostFrame::decode(raw).unwrap().unwrap())
}

async fn next(pieces: &mut mpsc::Receiver<Vec<u8>>) -> (u32, HostFrame) {
    let bytes = tokio::time::timeout(Duration::from_secs(30), pieces.recv()).await.unwrap().unwrap();
    decode(&bytes)
}

fn connect_request(address: SocketAddr) -> GuestFrame {
    GuestFrame::TunnelData(format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes())
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a_guest_that_breaks_the_rules_is_told_which() {
    let window = TUNNEL_WINDOW_BYTES as usize;
    for (frames, breach) in [
        (vec![(1, GuestFrame::TunnelOpen), (1, GuestFrame::TunnelOpen)], "twice"),
        (
            vec![(2, GuestFrame::TunnelOpen), (2, GuestFrame::TunnelClose), (2, GuestFrame::TunnelOpen)],
            "twice",
        ),
        (vec![(2, GuestFrame::TunnelOpen), (1, GuestFrame::TunnelOpen)], "twice"),
        (vec![(0, GuestFrame::TunnelOpen)], "twice"),
        (
            vec![(1, GuestFrame::TunnelOpen), (1, GuestFrame::TunnelData(vec![0; window + 1]))],
            "more than it may",
        ),
        (vec![(1, GuestFrame::TunnelOpen), (1, GuestFrame::TunnelCredit(1))], "more credit"),
        (vec![(1, GuestFrame::TunnelOpen), (1, GuestFrame::TunnelCredit(u32::MAX))], "more credit"),
        ((1..=MAX_TUNNELS as u32 + 1).map(|id| (id, GuestFrame::TunnelOpen)).collect(), "too many"),
    ] {
        let (tunnels, _pieces) = tunnels(LONG);
        let (last, before) = frames.split_last().unwrap();
        for (id, frame) in before {
            tunnels.take(*id, frame.clone()).unwrap();
        }
        let found = tunnels.take(last.0, last.1.clone()).unwrap_err();
        assert!(found.contains(breach), "{found}");
    }
}

#[tokio::test]
async fn what_is_under_way_to_a_closed_tunnel_is_dropped() {
    let (tunnels, _pieces) = tunnels(LONG);
    tunnels.take(1, GuestFrame::TunnelOpen).unwrap();
    tunnels.take(1, GuestFrame::TunnelClose).unwrap();
    for frame in
        [GuestFrame::TunnelData(vec![0; 1 << 19]), GuestFrame::TunnelCredit(9), GuestFrame::TunnelEnd]
    {
        tunnels.take(1, frame).unwrap();
    }
}

#[tokio::test]
async fn opening_and_closing_for_ever_is_bounded() {
    let (tunnels, _pieces) = tunnels(LONG);
    // No task gets its turn in between, which is the worst case.
    let mut breach = None;
    for id in 1..10_000 {
        breach = tunnels.take(id, GuestFrame::TunnelOpen).err();
        if breach.is_some() {
            break;
        }
        tunnels.take(id, GuestFrame::TunnelClose).unwrap();
    }
    assert!(breach.unwrap().contains("faster"));
}

#[tokio::test]
async fn nothing_is_sent_without_credit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        while stream.write_all(&[7; 65_536]).await.is_ok() {}
    });
    let (tunnels, mut pieces) = tunnels(LONG);
    tunnels.take(1, GuestFrame::TunnelOpen).unwrap();
    tunnels.take(1, connect_request(address)).unwrap();
    let mut received = 0;
    while received < TUNNEL_WINDOW_BYTES as usize {
        let (_, HostFrame::TunnelData(bytes)) = next(&mut pieces).await else { panic!("no data") };
        assert!(bytes.len() <= TUNNEL_PIECE_BYTES);
        received += bytes.len();
    }
    assert_eq!(received, TUNNEL_WINDOW_BYTES as usize);
    let more = tokio::time::timeout(Duration::from_millis(100), pieces.recv()).await;
    assert!(more.is_err(), "sent beyond its credit");
    tunnels.take(1, GuestFrame::TunnelCredit(5)).unwrap();
    assert_eq!(next(&mut pieces).await, (1, HostFrame::TunnelData(vec![7; 5])));
}

#[tokio::test]
async fn what_the_server_takes_comes_back_as_credit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        received.len()
    });
    let (tunnels, mut pieces) = tunnels(LONG);
    tunnels.take(1, GuestFrame::TunnelOpen).unwrap();
    tunnels.take(1, connect_request(address)).unwrap();
    let mut credit = TUNNEL_WINDOW_BYTES as usize - 200;
    let mut left: usize = 1 << 20;
    while left > 0 {
        let count = left.min(credit).min(TUNNEL_PIECE_BYTES);
        if count > 0 {
            tunnels.take(1, GuestFrame::TunnelData(vec![1; count])).unwrap();
            (left, credit) = (left - count, credit - count);
        } else if let (_, HostFrame::TunnelCredit(bytes)) = next(&mut pieces).await {
            credit += bytes as usize;
        }
    }
    tunnels.take(1, GuestFrame::TunnelEnd).unwrap();
    assert_eq!(server.await.unwrap(), 1 << 20);
    // Both sides are done, so the tunnel is closed and forgotten.
    while next(&mut pieces).await != (1, HostFrame::TunnelClose) {}
    assert!(lock(&tunnels.open).tunnels.is_empty());
}

#[tokio::test]
async fn a_tunnel_in_which_nothing_moves_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tunnels, mut pieces) = tunnels(Duration::from_millis(100));
    tunnels.take(1, GuestFrame::TunnelOpen).unwrap();
    tunnels.take(1, connect_request(address)).unwrap();
    let (_silent, _) = listener.accept().await.unwrap();
    // Half-open on top: the program has said its last word, the server says nothing at all.
    tunnels.take(1, GuestFrame::TunnelEnd).unwrap();
    while next(&mut pieces).await != (1, HostFrame::TunnelClose) {}
    assert!(lock(&tunnels.open).tunnels.is_empty());
}

fn any_frame() -> impl Strategy<Value = GuestFrame> {
    prop_oneof![
        Just(GuestFrame::TunnelOpen),
        proptest::collection::vec(any::<u8>(), 0..3000).prop_map(GuestFrame::TunnelData),
        Just(GuestFrame::TunnelData(b"CONNECT 10.0.0.1:80 HTTP/1.1\r\n\r\n".to_vec())),
        any::<u32>().prop_map(GuestFrame::TunnelCredit),
        Just(GuestFrame::TunnelEnd),
        Just(GuestFrame::TunnelClose),
        Just(GuestFrame::Done),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever a guest says, it is either within the rules or told that it is not; nothing panics or stays.
    #[test]
    fn no_sequence_of_frames_does_harm(frames in proptest::collection::vec((0u32..6, any_frame()), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (tunnels, mut pieces) = tunnels(LONG);
            for (id, frame) in frames {
                if tunnels.take(id, frame).is_err() {
                    break;
                }
                tokio::task::yield_now().await;
                while pieces.try_recv().is_ok() {}
            }
            tunnels.ended.cancel();
            // All of them come back once the connection is over.
            let all = tokio::time::timeout(Duration::from_secs(10), async {
                let drain = async { while pieces.recv().await.is_some() {} };
                tokio::select! {
                    permits = tunnels.tasks.acquire_many(MAX_TASKS as u32) => permits.is_ok(),
                    () = drain => false,
                }
            });
            assert_eq!(all.await, Ok(true), "a task outlives its connection");
        });
    }
}
