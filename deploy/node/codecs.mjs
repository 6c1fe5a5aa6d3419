// What brokers and producers compress with, and kafkajs cannot read: LZ4 frames and Snappy. (zstd: fzstd.)
// LZ4: its frame and block formats. Snappy: its block format, alone or in the blocks of Java's client. Checksums are not
// compared: a record batch has its own.

const LZ4_MAGIC = 0x184d2204, LAST = 0;
const JAVA_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0]), JAVA_HEADER = 16;

/** Bytes that grow; a copy may reach back into what was written, and over its own end. */
class Output {
  #bytes = Buffer.allocUnsafe(1 << 16); #length = 0;

  #reserve(more) {
    if (this.#length + more <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(2 * this.#bytes.length, this.#length + more));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }

  write(bytes) {
    this.#reserve(bytes.length);
    bytes.copy(this.#bytes, this.#length);
    this.#length += bytes.length;
  }

  copy(distance, count) {
    if (distance === 0 || distance > this.#length) throw new Error("the compressed records are damaged: a copy from before their beginning");
    this.#reserve(count);
    for (let i = 0; i < count; i++) this.#bytes[this.#length + i] = this.#bytes[this.#length + i - distance];
    this.#length += count;
  }

  get bytes() {
    return this.#bytes.subarray(0, this.#length);
  }
}

/** Return a part of a buffer, or throw where the buffer ends before. */
function part(buffer, from, length) {
  if (from + length > buffer.length) throw new Error("the compressed records are cut short");
  return buffer.subarray(from, from + length);
}

/** Decompress an LZ4 frame. */
export function lz4(buffer) {
  if (buffer.readUInt32LE(0) !== LZ4_MAGIC) throw new Error("the compressed records are not an LZ4 frame");
  const flags = buffer[4], output = new Output();
  const ofBlocks = (flags >> 4) & 1, ofSize = (flags >> 3) & 1, ofDictionary = flags & 1;
  let at = 4 + 2 + 8 * ofSize + 4 * ofDictionary + 1;
  for (;;) {
    const header = part(buffer, at, 4).readUInt32LE(0), length = header & 0x7fffffff;
    if (header === LAST) return output.bytes;
    const block = part(buffer, at + 4, length);
    if (header >>> 31) output.write(block);
    else lz4Block(block, output);
    at += 4 + length + 4 * ofBlocks;
  }
}

function lz4Block(block, output) {
  let at = 0;
  const long = (length) => {
    if (length < 15) return length;
    for (let more = 255; more === 255; length += more) more = part(block, at++, 1)[0];
    return length;
  };
  while (at < block.length) {
    const token = block[at++], literals = long(token >> 4);
    output.write(part(block, at, literals));
    at += literals;
    if (at >= block.length) return; // the last sequence has no copy
    const distance = part(block, at, 2).readUInt16LE(0);
    at += 2;
    output.copy(distance, long(token & 15) + 4);
  }
}

/** Decompress Snappy. */
export function snappy(buffer) {
  const output = new Output();
  if (!part(buffer, 0, Math.min(8, buffer.length)).equals(JAVA_MAGIC)) snappyBlock(buffer, output);
  else
    for (let at = JAVA_HEADER; at < buffer.length; ) {
      const length = part(buffer, at, 4).readUInt32BE(0), own = new Output();
      snappyBlock(part(buffer, at + 4, length), own);
      output.write(own.bytes);
      at += 4 + length;
    }
  return output.bytes;
}

function snappyBlock(block, output) {
  let at = 0;
  while (part(block, at++, 1)[0] >= 128); // the length, a varint
  while (at < block.length) {
    const tag = block[at++], kind = tag & 3, size = tag >> 2;
    if (kind === 0) {
      const wide = Math.max(0, size - 59), length = (wide ? part(block, at, wide).readUIntLE(0, wide) : size) + 1;
      output.write(part(block, at + wide, length));
      at += wide + length;
    } else if (kind === 1) {
      output.copy(((tag >> 5) << 8) | part(block, at, 1)[0], (size & 7) + 4);
      at += 1;
    } else {
      const wide = kind === 2 ? 2 : 4;
      output.copy(part(block, at, wide).readUIntLE(0, wide), size + 1);
      at += wide;
    }
  }
}
