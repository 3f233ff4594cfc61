import type { RealmBridge } from './realm-bridge.ts';

/** WASI 0.2 of one run. */
export interface WasiStubs {
  /** Stub of an interface, by its name without version. */
  instance(name: string): object;
  /** Logs unterminated lines of the output streams. Called once, after a successful run. */
  flush(): void;
}

/**
 * Creates the stubs for one run: no environment, arguments, input or folders; output goes to the log, clocks and random
 * numbers work, an exit traps, and everything else is denied by a trap. Like `createGuestBindings`, its text is evaluated
 * in the guest realm and refers only to its parameters and ECMAScript's own. Resources are classes, because glue
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
  const LINE_FEED = 0x0a;

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

  /** Splits the bytes written to an output stream into log lines. */
  class LineWriter {
    /** Bytes of the line that has not ended, followed by free space. */
    #line = new Uint8Array(256);
    #length = 0;

    write(view: unknown): void {
      const bytes = countedBytes(view);
      let start = 0;
      for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
        this.#add(bytes.subarray(start, end));
        this.#logLine();
        start = end + 1;
      }
      this.#add(bytes.subarray(start));
    }
    end(): void {
      if (this.#length > 0) this.#logLine();
    }
    #add(bytes: Uint8Array): void {
      const length = this.#length + bytes.length;
      if (length > this.#line.length) {
        const grown = new Uint8Array(2 * length);
        grown.set(this.#line);
        this.#line = grown;
      }
      this.#line.set(bytes, this.#length);
      this.#length = length;
    }
    #logLine(): void {
      const line = this.#line.subarray(0, this.#length);
      this.#length = 0;
      log(bridge.decodeLossy(line));
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
      const denied = new Map<string, object>();
      return new Proxy(own, {
        get(_, key) {
          if (typeof key !== 'string') return undefined;
          const member: unknown = Reflect.get(own, key);
          return member ?? denied.getOrInsertComputed(key, () => deniedClass(`${name} ${key}`));
        },
      });
    },
    flush() {
      stdout.end();
      stderr.end();
    },
  };
}
