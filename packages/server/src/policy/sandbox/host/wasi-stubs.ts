import type { RealmBridge } from './realm-bridge.ts';

/** WASI 0.2 of one run (decisions 4.9). */
export interface WasiStubs {
  /** Stub of an interface, by its name without version. */
  instance(name: string): object;
  /** Logs unterminated lines of the output streams. Called once, after a successful run. */
  flush(): void;
}

/**
 * Creates the stubs for one run: no environment, arguments, input or folders; output goes to the log, clocks and random
 * numbers work, an exit traps, and everything else is denied by a trap. Like `createGuestBindings`, its text is evaluated
 * in the guest realm and refers to nothing but its parameters and ECMAScript's own. Resources are classes, because glue
 * creates objects from their prototypes. `countedBytes` returns the bytes of a view and counts them as text; `log` takes a
 * line and enforces the log limits.
 */
export function createWasiStubs(
  bridge: RealmBridge,
  countedBytes: (view: unknown) => Uint8Array,
  log: (line: string) => void,
): WasiStubs {
  const MAX_RANDOM_BYTES = 65_536;
  const MAX_WRITE_BYTES = 65_536;

  const deny = (what: string): never => {
    throw new Error(`${what} is denied to actions`);
  };
  /** Class whose members all exist and deny their use. */
  const deniedClass = (name: string): object => {
    class Denied {
      constructor() {
        deny(name);
      }
    }
    const prototype = new Proxy(Denied.prototype, {
      get: (own, key) =>
        key === 'constructor' || typeof key === 'symbol' ? Reflect.get(own, key) : () => deny(`${name}.${key}`),
    });
    return new Proxy(Denied, {
      get: (own, key) => {
        if (key === 'prototype') return Reflect.get(own, key);
        if (typeof key === 'symbol' || key in own) return Reflect.get(own, key);
        return () => deny(`${name}.${key}`);
      },
      apply: () => deny(name),
      construct: () => prototype,
    });
  };

  /**
   * Decodes UTF-8, with U+FFFD for invalid bytes. `consumed` excludes an incomplete character at the end.
   */
  const decodeLossy = (bytes: Uint8Array): { text: string; consumed: number } => {
    const valid = bridge.decode(bytes);
    if (valid !== undefined) return { text: valid, consumed: bytes.length };
    // Lowest code point by number of bytes; lower ones are overlong encodings.
    const lowest = [0, 0, 0x80, 0x800, 0x10000];
    let text = '';
    let start = 0;
    while (start < bytes.length) {
      const first = bytes[start] ?? 0;
      // Leading ones: 0 for ASCII, 1 for a continuation byte, otherwise the length of the character.
      const ones = Math.clz32(~(first << 24));
      const isLead = ones !== 1 && ones <= 4;
      const end = start + (isLead ? Math.max(ones, 1) : 1);
      let point = first & (0x7f >> ones);
      let next = start + 1;
      for (; next < end; next++) {
        const byte = bytes[next] ?? 0;
        if (byte >> 6 !== 0b10) break;
        point = (point << 6) | (byte & 0x3f);
      }
      if (isLead && next < end && next === bytes.length) break;
      const isSurrogate = point >= 0xd800 && point <= 0xdfff;
      const isValid = isLead && next === end && point >= (lowest[ones] ?? 0) && point <= 0x10ffff && !isSurrogate;
      text += isValid ? String.fromCodePoint(point) : '\ufffd';
      start = next;
    }
    return { text, consumed: start };
  };

  /** Splits the bytes written to an output stream into log lines. */
  class LineWriter {
    #line = '';
    /** Incomplete character at the end of the last write. */
    #incomplete = new Uint8Array(0);

    write(view: unknown): void {
      const bytes = countedBytes(view);
      for (let offset = 0; offset < bytes.length; offset += MAX_WRITE_BYTES) {
        this.#writePart(bytes.subarray(offset, offset + MAX_WRITE_BYTES));
      }
    }
    #writePart(part: Uint8Array): void {
      const bytes = new Uint8Array(this.#incomplete.length + part.length);
      bytes.set(this.#incomplete);
      bytes.set(part, this.#incomplete.length);
      const { text, consumed } = decodeLossy(bytes);
      this.#incomplete = bytes.slice(consumed);
      const lines = text.split('\n');
      lines[0] = this.#line + (lines[0] ?? '');
      this.#line = lines.pop() ?? '';
      for (const line of lines) log(line);
    }
    end(): void {
      if (this.#incomplete.length > 0) this.#line += '\ufffd';
      if (this.#line !== '') log(this.#line);
    }
  }
  const stdout = new LineWriter();
  const stderr = new LineWriter();

  class OutputStream {
    readonly #writer: LineWriter;
    constructor(writer: LineWriter) {
      this.#writer = writer;
    }
    checkWrite(): bigint {
      return BigInt(MAX_WRITE_BYTES);
    }
    write(bytes: Uint8Array): void {
      this.#writer.write(bytes);
    }
    blockingWriteAndFlush(bytes: Uint8Array): void {
      this.write(bytes);
    }
    flush(): void {}
    blockingFlush(): void {}
    writeZeroes(): void {}
    blockingWriteZeroesAndFlush(): void {}
    subscribe(): Pollable {
      return new Pollable();
    }
    splice(): bigint {
      return 0n;
    }
    blockingSplice(): bigint {
      return 0n;
    }
  }
  const CLOSED = { tag: 'closed' };
  class InputStream {
    read(): never {
      throw { payload: CLOSED };
    }
    blockingRead(): never {
      throw { payload: CLOSED };
    }
    skip(): never {
      throw { payload: CLOSED };
    }
    blockingSkip(): never {
      throw { payload: CLOSED };
    }
    subscribe(): Pollable {
      return new Pollable();
    }
  }
  /** Always ready: nothing blocks. */
  class Pollable {
    ready(): boolean {
      return true;
    }
    block(): void {}
  }
  class IoError {
    toDebugString(): string {
      return 'denied';
    }
  }
  const randomBytes = (length: bigint): Uint8Array => {
    if (length > MAX_RANDOM_BYTES) deny(`random of ${length} bytes`);
    const bytes = new Uint8Array(Number(length));
    bridge.randomFill(bytes);
    return bytes;
  };
  const randomU64 = (): bigint => new DataView(randomBytes(8n).buffer).getBigUint64(0);
  const wallNow = (): object => {
    const now = bridge.wallMilliseconds();
    return { seconds: BigInt(Math.floor(now / 1000)), nanoseconds: (now % 1000) * 1_000_000 };
  };

  const instances: Record<string, object> = {
    'wasi:cli/environment': { getEnvironment: () => [], getArguments: () => [], initialCwd: () => undefined },
    'wasi:cli/exit': { exit: () => deny('exit'), exitWithCode: () => deny('exit') },
    'wasi:cli/stdin': { getStdin: () => new InputStream() },
    'wasi:cli/stdout': { getStdout: () => new OutputStream(stdout) },
    'wasi:cli/stderr': { getStderr: () => new OutputStream(stderr) },
    'wasi:cli/terminal-stdin': { getTerminalStdin: () => undefined },
    'wasi:cli/terminal-stdout': { getTerminalStdout: () => undefined },
    'wasi:cli/terminal-stderr': { getTerminalStderr: () => undefined },
    'wasi:clocks/monotonic-clock': {
      now: () => bridge.monotonicNanoseconds(),
      resolution: () => 1n,
      subscribeInstant: () => new Pollable(),
      subscribeDuration: () => new Pollable(),
    },
    'wasi:clocks/wall-clock': { now: wallNow, resolution: () => ({ seconds: 0n, nanoseconds: 1_000_000 }) },
    'wasi:filesystem/preopens': { getDirectories: () => [] },
    'wasi:io/error': { Error: IoError },
    'wasi:io/poll': { Pollable, poll: (list: unknown[]) => Uint32Array.from(list.keys()) },
    'wasi:io/streams': { InputStream, OutputStream },
    'wasi:random/random': { getRandomBytes: randomBytes, getRandomU64: randomU64 },
    'wasi:random/insecure': { getInsecureRandomBytes: randomBytes, getInsecureRandomU64: randomU64 },
    'wasi:random/insecure-seed': { insecureSeed: () => [randomU64(), randomU64()] },
  };

  return {
    instance(name) {
      const own = instances[name] ?? {};
      const denied = new Map<string, unknown>();
      return new Proxy(own, {
        get(_, key) {
          if (typeof key !== 'string') return undefined;
          const member: unknown = Reflect.get(own, key);
          if (member !== undefined) return member;
          const known = denied.get(key);
          if (known !== undefined) return known;
          const created = deniedClass(`${name} ${key}`);
          denied.set(key, created);
          return created;
        },
      });
    },
    flush() {
      stdout.end();
      stderr.end();
    },
  };
}
