import type { RealmBridge } from './realm-bridge.ts';

/** WASI 0.2 as actions get it (decisions 4.9). */
export interface WasiStubs {
  /** The stub of an interface, by its name without version. */
  instance(name: string): object;
  /** Logs what stands on the output streams without the end of its line. Called once, when the run has ended well. */
  flush(): void;
}

/**
 * WASI for one run: no environment, no arguments, empty input, no folder; output goes to the log, clocks and random work,
 * an exit traps, and whatever else is used is denied by a trap. Like `inside`, it is evaluated in the action's realm and
 * names nothing but its parameters and ECMAScript's own. Resources are classes, because glue makes objects of their
 * prototypes. `counted` gives the bytes of a view, which count as text; `log` takes a line, and keeps the limits of the
 * log.
 */
export function wasiStubs(
  door: RealmBridge,
  counted: (view: unknown) => Uint8Array,
  log: (line: string) => void,
): WasiStubs {
  const MAX_RANDOM_BYTES = 65_536;
  const WRITE_BYTES = 65_536;

  const deny = (what: string): never => {
    throw new Error(`${what} is denied to actions`);
  };
  /** A class of which anything can be asked and that denies it all. */
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
   * The text of bytes, with U+FFFD where they are no UTF-8. `used` is less than all of them where the last ones begin a
   * character whose other bytes are not there.
   */
  const decoded = (bytes: Uint8Array): { text: string; used: number } => {
    const whole = door.decode(bytes);
    if (whole !== undefined) return { text: whole, used: bytes.length };
    // What characters of so many bytes are at least, or there would be a shorter spelling.
    const least = [0, 0, 0x80, 0x800, 0x10000];
    let text = '';
    let at = 0;
    while (at < bytes.length) {
      const first = bytes[at] ?? 0;
      // 0 for ASCII, 1 within a character, else the bytes that a character has.
      const ones = Math.clz32(~(first << 24));
      const begins = ones !== 1 && ones <= 4;
      const end = at + (begins ? Math.max(ones, 1) : 1);
      let point = first & (0x7f >> ones);
      let next = at + 1;
      for (; next < end; next++) {
        const byte = bytes[next] ?? 0;
        if (byte >> 6 !== 0b10) break;
        point = (point << 6) | (byte & 0x3f);
      }
      if (begins && next < end && next === bytes.length) break;
      const surrogate = point >= 0xd800 && point <= 0xdfff;
      const valid = begins && next === end && point >= (least[ones] ?? 0) && point <= 0x10ffff && !surrogate;
      text += valid ? String.fromCodePoint(point) : '\ufffd';
      at = next;
    }
    return { text, used: at };
  };

  /** What an action prints on one of its streams: bytes, as they come, to lines. */
  class Printed {
    #line = '';
    /** Of a character that goes on in the next write. */
    #begun = new Uint8Array(0);

    take(view: unknown): void {
      const bytes = counted(view);
      for (let at = 0; at < bytes.length; at += WRITE_BYTES) this.#takePart(bytes.subarray(at, at + WRITE_BYTES));
    }
    #takePart(part: Uint8Array): void {
      const bytes = new Uint8Array(this.#begun.length + part.length);
      bytes.set(this.#begun);
      bytes.set(part, this.#begun.length);
      const { text, used } = decoded(bytes);
      this.#begun = bytes.slice(used);
      const lines = text.split('\n');
      lines[0] = this.#line + (lines[0] ?? '');
      this.#line = lines.pop() ?? '';
      for (const whole of lines) log(whole);
    }
    end(): void {
      if (this.#begun.length > 0) this.#line += '\ufffd';
      if (this.#line !== '') log(this.#line);
    }
  }
  const stdout = new Printed();
  const stderr = new Printed();

  class OutputStream {
    readonly #printed: Printed;
    constructor(printed: Printed) {
      this.#printed = printed;
    }
    checkWrite(): bigint {
      return BigInt(WRITE_BYTES);
    }
    write(bytes: Uint8Array): void {
      this.#printed.take(bytes);
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
  /** Nothing is waited for: whatever could be polled is ready. */
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
    door.randomFill(bytes);
    return bytes;
  };
  const randomU64 = (): bigint => new DataView(randomBytes(8n).buffer).getBigUint64(0);
  const wallNow = (): object => {
    const now = door.wallMilliseconds();
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
      now: () => door.monotonicNanoseconds(),
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
      const ours = instances[name] ?? {};
      const denied = new Map<string, unknown>();
      return new Proxy(ours, {
        get(_, key) {
          if (typeof key !== 'string') return undefined;
          const own: unknown = Reflect.get(ours, key);
          if (own !== undefined) return own;
          const known = denied.get(key);
          if (known !== undefined) return known;
          const made = deniedClass(`${name} ${key}`);
          denied.set(key, made);
          return made;
        },
      });
    },
    flush() {
      stdout.end();
      stderr.end();
    },
  };
}
