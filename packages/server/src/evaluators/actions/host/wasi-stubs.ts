import type { Door } from './door.ts';

/** WASI 0.2 as actions get it (decisions 4.9). */
export interface WasiStubs {
  /** The stub of an interface, by its name without version. */
  instance(name: string): object;
  /** Logs what stands on the output streams without the end of its line. */
  flush(): void;
}

/**
 * WASI for one run: no environment, no arguments, empty input, no folder; output goes to the log, clocks and random work,
 * an exit traps, and whatever else is used is denied by a trap. Like `inside`, it is evaluated in the action's realm and
 * names nothing but its parameters and ECMAScript's own. Resources are classes, because glue makes objects of their
 * prototypes.
 */
export function wasiStubs(door: Door, countText: (bytes: number) => void): WasiStubs {
  const MAX_RANDOM_BYTES = 65_536;
  const WRITE_BYTES = 65_536n;

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

  let line = '';
  class OutputStream {
    checkWrite(): bigint {
      return WRITE_BYTES;
    }
    write(bytes: Uint8Array): void {
      countText(bytes.length);
      line += door.decode(bytes) ?? '';
      const lines = line.split('\n');
      line = lines.pop() ?? '';
      for (const whole of lines) door.log('debug', whole);
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
    'wasi:cli/stdout': { getStdout: () => new OutputStream() },
    'wasi:cli/stderr': { getStderr: () => new OutputStream() },
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
      if (line !== '') door.log('debug', line);
      line = '';
    },
  };
}
