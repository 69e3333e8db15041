"""Attachments that are pictures and sound. As in plain.py: each function writes a file and returns the answer."""
import datetime, math, random, struct, wave


def chart(path):
    from PIL import Image, ImageDraw, ImageFont
    vals = {"Mon": 14, "Tue": 22, "Wed": 9, "Thu": 31, "Fri": 27}
    im = Image.new("RGB", (700, 460), "white"); d = ImageDraw.Draw(im); f = ImageFont.load_default(24)
    for v in range(0, 36, 5):
        y = 400 - v * 10; d.line((74, y, 660, y), fill=(215, 215, 215)); d.text((36, y - 14), str(v), fill="black", font=f)
    d.line((80, 40, 80, 400, 660, 400), fill="black", width=3)
    for i, (k, v) in enumerate(vals.items()):
        x = 110 + i * 110; d.rectangle((x, 400 - v * 10, x + 70, 400), fill=(220, 80, 60) if k == "Thu" else (70, 110, 190)); d.text((x + 8, 408), k, fill="black", font=f)
        d.text((x + 20, 370 - v * 10), str(v), fill="black", font=f)
    im.save(path, optimize=True)
    return sum(v for k, v in vals.items() if k != "Thu")


DISC_COLOURS = {"orange": (240, 140, 20), "green": (40, 140, 70), "purple": (130, 50, 190)}


def discs(path):
    from PIL import Image, ImageDraw
    rnd = random.Random(6)
    shapes = [("disc", "purple")] * 11 + [("disc", "orange")] * 8 + [("disc", "green")] * 6 + [("square", "green")] * 9 + [("square", "orange")] * 4 + [("square", "purple")] * 2
    places = [(x, y) for x in range(10) for y in range(5)]
    rnd.shuffle(places); rnd.shuffle(shapes)
    im = Image.new("RGB", (800, 400), "white"); d = ImageDraw.Draw(im)
    for (shape, colour), (x, y) in zip(shapes, places):
        r = rnd.randrange(12, 34); cx, cy = 40 + 80 * x + rnd.randrange(-4, 5), 40 + 80 * y + rnd.randrange(-4, 5)
        (d.ellipse if shape == "disc" else d.rectangle)((cx - r, cy - r, cx + r, cy + r), fill=DISC_COLOURS[colour])
    im.save(path, optimize=True)
    count = {c: shapes.count(("disc", c)) for c in DISC_COLOURS}
    return ", ".join(sorted(count, key=count.get, reverse=True))


def photo(path):
    from PIL import Image
    from PIL.TiffImagePlugin import IFDRational
    taken, altitude = datetime.datetime(2023, 8, 19, 6, 42, 10), 1284
    im = Image.new("RGB", (640, 420))
    ridge = [230 + 60 * math.sin(x / 90) + 25 * math.sin(x / 31 + 1) for x in range(640)]
    im.putdata([(250 - y // 4, 190 - y // 8, 120 + y // 5) if y < ridge[x] else (40 + y // 12, 60 + x // 40, 55) for y in range(420) for x in range(640)])
    exif = Image.Exif()
    exif[0x010F], exif[0x0110] = "Invented", "Camera One"
    exif[0x0132] = "2024:01:01 00:00:00"  # last changed, not taken
    exif.get_ifd(0x8769)[0x9003] = taken.strftime("%Y:%m:%d %H:%M:%S")
    exif.get_ifd(0x8825).update({5: b"\0", 6: IFDRational(altitude * 10, 10)})
    im.save(path, "JPEG", quality=70, exif=exif)
    return f"{taken.strftime('%A')}, {altitude}"


MORSE = dict(zip("EGIKNOPRSTWY", ". --. .. -.- -. --- .--. .-. ... - .-- -.--".split()))


def morse(path, word="OSPREY"):
    rate, unit = 8000, 0.07
    sound = bytearray()

    def tone(units, loud):
        n = round(rate * unit * units)
        sound.extend(128 + (round(90 * math.sin(2 * math.pi * 620 * i / rate)) if loud else 0) for i in range(n))
    tone(5, False)
    for letter in word:
        for mark in MORSE[letter]:
            tone(1 if mark == "." else 3, True); tone(1, False)
        tone(2, False)
    tone(5, False)
    with wave.open(str(path), "wb") as w:
        w.setnchannels(1); w.setsampwidth(1); w.setframerate(rate); w.writeframes(bytes(sound))
    return word


def chapters(path):
    """A programme of tones with ID3v2.3 chapter frames."""
    import lameenc
    marks = [("The Spring", 0, 5250), ("The Weir", 5250, 12900), ("The Bridge", 12900, 17350), ("The Mouth", 17350, 24000)]
    rate = 16000
    pcm = b"".join(struct.pack("<h", round(8000 * math.sin(2 * math.pi * (300 + 80 * sum(ms >= s for _, s, _ in marks)) * i / rate)))
                   for i in range(rate * 24) for ms in [i * 1000 / rate])
    enc = lameenc.Encoder(); enc.set_bit_rate(16); enc.set_in_sample_rate(rate); enc.set_channels(1); enc.set_quality(2); enc.silence()

    def frame(name, data):
        return name + struct.pack(">IH", len(data), 0) + data
    tag = frame(b"TIT2", b"\0Down the river")
    for n, (title, start, end) in enumerate(marks):
        tag += frame(b"CHAP", b"ch%d\0" % n + struct.pack(">4I", start, end, 0xFFFFFFFF, 0xFFFFFFFF) + frame(b"TIT2", b"\0" + title.encode("latin-1")))
    size = bytes(len(tag) >> s & 0x7F for s in (21, 14, 7, 0))
    path.write_bytes(b"ID3\x03\0\0" + size + tag + enc.encode(pcm) + enc.flush())
    title, start, end = max(marks, key=lambda m: m[2] - m[1])
    return f"{title}, {(end - start) / 1000:g}"
