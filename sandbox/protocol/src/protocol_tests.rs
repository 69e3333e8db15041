use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn host_frame() -> impl Strategy<Value = HostFrame> {
    prop_oneof![
        (any::<u16>(), any::<u32>(), any::<u64>()).prop_map(|(version, lease_seconds, spill_bytes)| {
            HostFrame::Init(Init { version, lease_seconds, spill_bytes })
        }),
        vec(any::<u8>(), 0..300).prop_map(HostFrame::Script),
        vec(any::<u8>(), 0..300).prop_map(HostFrame::Stdin),
        Just(HostFrame::StdinEof),
        (
            any::<u64>(),
            prop_oneof![Just(Input::Empty), Just(Input::Bytes), Just(Input::Open)],
            prop_oneof![Just(Keep::State), Just(Keep::Nothing)],
            prop_oneof![Just(Spill::WhenLong), Just(Spill::Always)],
        )
            .prop_map(|(timeout_ms, input, keep, spill)| HostFrame::Exec(Exec {
                timeout_ms,
                input,
                keep,
                spill
            })),
        Just(HostFrame::Cancel),
        any::<i32>().prop_map(HostFrame::Signal),
        Just(HostFrame::Restart),
        (any::<u64>(), any::<u32>(), any::<String>()).prop_map(|(offset, max_bytes, path)| HostFrame::Read {
            offset,
            max_bytes,
            path
        }),
        (
            prop_oneof![Just(WriteStart::Truncate), Just(WriteStart::Append)],
            any::<String>(),
            vec(any::<u8>(), 0..300)
        )
            .prop_map(|(start, path, bytes)| HostFrame::Write { start, path, bytes }),
        Just(HostFrame::Ping),
        Just(HostFrame::Shutdown),
        any::<u16>().prop_map(|port| HostFrame::Listen { port }),
        vec(any::<u8>(), 0..300).prop_map(HostFrame::TunnelData),
        any::<u32>().prop_map(HostFrame::TunnelCredit),
        Just(HostFrame::TunnelEnd),
        Just(HostFrame::TunnelClose),
    ]
}

prop_compose! {
    fn exit()(
        numbers in (any::<i32>(), any::<i32>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()),
        ending in prop_oneof![Just(Ending::Itself), Just(Ending::TimedOut), Just(Ending::Cancelled)],
        oom_killed in any::<bool>(),
        head in vec(any::<u8>(), 0..100),
        tail in vec(any::<u8>(), 0..100),
        spill_path in any::<String>(),
        cwd in any::<String>(),
        background in vec((any::<u32>(), any::<String>()).prop_map(|(pid, name)| Process { pid, name }), 0..4),
        notes in vec(any::<String>(), 0..4),
    ) -> Exit {
        let (exit_code, signal, duration_us, total_bytes, total_lines, spilled_bytes, processes_killed) = numbers;
        Exit {
            exit_code, signal, ending, oom_killed, duration_us, total_bytes, total_lines, head, tail, spill_path,
            spilled_bytes, cwd, processes_killed, background, notes,
        }
    }
}

fn guest_frame() -> impl Strategy<Value = GuestFrame> {
    prop_oneof![
        (any::<u16>(), any::<u32>(), prop_oneof![Just(Shell::None), Just(Shell::Sh), Just(Shell::Bash)])
            .prop_map(|(version, features, shell)| GuestFrame::Hello { version, features, shell }),
        any::<String>().prop_map(|spill_path| GuestFrame::Started { spill_path }),
        (any::<u64>(), any::<u64>(), any::<u64>(), any::<String>()).prop_map(
            |(elapsed_us, total_bytes, total_lines, last_line)| GuestFrame::Progress {
                elapsed_us,
                total_bytes,
                total_lines,
                last_line
            }
        ),
        exit().prop_map(|exit| GuestFrame::Exit(Box::new(exit))),
        (any::<u64>(), any::<bool>(), vec(any::<u8>(), 0..300)).prop_map(
            |(file_bytes, end_of_file, bytes)| { GuestFrame::FileChunk { file_bytes, end_of_file, bytes } }
        ),
        Just(GuestFrame::Done),
        any::<u64>().prop_map(|free_disk_bytes| GuestFrame::Pong { free_disk_bytes }),
        any::<String>().prop_map(|text| GuestFrame::Error { kind: ErrorKind::NoSpace, text }),
        Just(GuestFrame::TunnelOpen),
        vec(any::<u8>(), 0..300).prop_map(GuestFrame::TunnelData),
        any::<u32>().prop_map(GuestFrame::TunnelCredit),
        Just(GuestFrame::TunnelEnd),
        Just(GuestFrame::TunnelClose),
    ]
}

/// Feeds `stream` in pieces that end at `cuts` and decodes everything.
fn decode_in_pieces(stream: &[u8], cuts: &[usize]) -> Vec<RawFrame> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    let mut start = 0;
    for cut in cuts {
        decoder.push(&stream[start..cut]);
        start = cut;
        while let Some(frame) = decoder.next_frame().unwrap() {
            frames.push(frame);
        }
    }
    frames
}

proptest! {
    #[test]
    fn host_frames_survive_the_wire_however_it_is_cut(
        frames in vec((any::<u32>(), host_frame()), 1..8),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let mut stream = Vec::new();
        for (id, frame) in &frames {
            frame.encode(*id, &mut stream);
        }
        let decoded: Vec<(u32, HostFrame)> = decode_in_pieces(&stream, &cuts)
            .into_iter()
            .map(|frame| (frame.id, HostFrame::decode(frame).unwrap().unwrap()))
            .collect();
        prop_assert_eq!(decoded, frames);
    }

    #[test]
    fn guest_frames_survive_the_wire_however_it_is_cut(
        frames in vec((any::<u32>(), guest_frame()), 1..8),
        cuts in vec(any::<usize>(), 0..12),
    ) {
        let mut stream = Vec::new();
        for (id, frame) in &frames {
            frame.encode(*id, &mut stream);
        }
        let decoded: Vec<(u32, GuestFrame)> = decode_in_pieces(&stream, &cuts)
            .into_iter()
            .map(|frame| (frame.id, GuestFrame::decode(&frame).unwrap().unwrap()))
            .collect();
        prop_assert_eq!(decoded, frames);
    }

    #[test]
    fn random_streams_never_panic(stream in vec(any::<u8>(), 0..4096)) {
        let mut decoder = Decoder::default();
        decoder.push(&stream);
        while let Ok(Some(frame)) = decoder.next_frame() {
            let _ = GuestFrame::decode(&frame);
            let _ = HostFrame::decode(frame);
        }
    }

    #[test]
    fn random_payloads_of_known_types_never_panic(
        kind in prop_oneof![0x01u8..0x10, 0x20u8..0x28, 0x81u8..0x90, 0xa0u8..0xa8],
        payload in vec(any::<u8>(), 0..512),
    ) {
        let frame = RawFrame { kind, id: 1, payload };
        let _ = GuestFrame::decode(&frame);
        let _ = HostFrame::decode(frame);
    }

    #[test]
    fn a_payload_cut_short_or_lengthened_is_refused(frame in guest_frame(), cut in 1usize..64) {
        let mut stream = Vec::new();
        frame.encode(1, &mut stream);
        let whole = decode_in_pieces(&stream, &[]).remove(0);
        // The bytes of these have no count of their own: the last field takes what is there.
        let takes_all = matches!(frame, GuestFrame::FileChunk { .. } | GuestFrame::TunnelData(_));
        if !takes_all && !whole.payload.is_empty() {
            let mut short = whole.clone();
            short.payload.truncate(whole.payload.len() - cut.min(whole.payload.len()));
            prop_assert_eq!(GuestFrame::decode(&short), Err(ProtocolError::Payload(whole.kind)));
            let mut long = whole;
            long.payload.extend(vec![0; cut]);
            prop_assert_eq!(GuestFrame::decode(&long), Err(ProtocolError::Payload(long.kind)));
        }
    }
}

proptest! {
    #[test]
    fn credit_never_leaves_its_window(steps in vec(prop_oneof![
        (0usize..400_000).prop_map(Ok),
        prop_oneof![0u32..400_000, Just(u32::MAX)].prop_map(Err),
    ], 0..64)) {
        let (mut credit, mut expected) = (Credit::default(), i64::from(TUNNEL_WINDOW_BYTES));
        for step in steps {
            let (change, is_taken) = match step {
                Ok(spent) => (-(spent as i64), credit.spend(spent).is_some()),
                Err(added) => (i64::from(added), credit.add(added).is_some()),
            };
            let is_possible = (0..=i64::from(TUNNEL_WINDOW_BYTES)).contains(&(expected + change));
            prop_assert_eq!(is_taken, is_possible);
            if is_possible {
                expected += change;
            }
            prop_assert_eq!(credit.bytes() as i64, expected);
        }
    }
}

#[test]
fn a_length_out_of_range_is_refused_before_its_bytes_come() {
    for length in [0, 4, MAX_FRAME_BYTES as u32 + 1, u32::MAX] {
        let mut decoder = Decoder::default();
        decoder.push(&length.to_le_bytes());
        assert_eq!(decoder.next_frame(), Err(ProtocolError::Length(length)));
    }
}

#[test]
fn a_frame_of_the_largest_size_passes() {
    let frame = RawFrame { kind: 2, id: 7, payload: vec![1; MAX_PAYLOAD_BYTES] };
    let mut stream = Vec::new();
    frame.encode(&mut stream);
    assert_eq!(decode_in_pieces(&stream, &[stream.len() - 1]), vec![frame]);
}

#[test]
fn unknown_types_are_skipped() {
    let frame = RawFrame { kind: 0x7f, id: 1, payload: vec![1, 2, 3] };
    assert_eq!(GuestFrame::decode(&frame), Ok(None));
    assert_eq!(HostFrame::decode(frame), Ok(None));
}

#[test]
fn a_list_that_claims_more_than_it_has_is_refused() {
    let mut exit = Vec::new();
    GuestFrame::Exit(Box::new(Exit {
        exit_code: 0,
        signal: 0,
        ending: Ending::Itself,
        oom_killed: false,
        duration_us: 0,
        total_bytes: 0,
        total_lines: 0,
        head: vec![],
        tail: vec![],
        spill_path: String::new(),
        spilled_bytes: 0,
        cwd: String::new(),
        processes_killed: 0,
        background: vec![],
        notes: vec![],
    }))
    .encode(1, &mut exit);
    let mut frame = decode_in_pieces(&exit, &[]).remove(0);
    let last = frame.payload.len() - 4;
    frame.payload[last..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(GuestFrame::decode(&frame), Err(ProtocolError::Payload(frame.kind)));
}
