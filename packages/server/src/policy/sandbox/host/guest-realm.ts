import type { RealmBridge } from './realm-bridge.ts';
import type { WasiStubs } from './wasi-stubs.ts';

/** What an action's glue gives: made anew for each run. */
export type Instantiate = (
  coreModule: (name: string) => object,
  imports: object,
  instantiateCore: (module: object, imports: object) => WebAssembly.Instance,
) => { evaluate(context: unknown): unknown };

/** A core module as the host holds it. */
export interface HeldModule {
  readonly name: string;
  /** What an instance may take of the memory of a run, in pages of 64 KiB. */
  readonly pages: number;
  readonly module: WebAssembly.Module;
}

/** The inner side of a realm. */
export interface GuestBindings {
  readonly TextDecoder: object;
  readonly TextEncoder: object;
  /** `context` is JSON, and so is what comes back: a `FromHost` of the kind `done` or `failed`. */
  run(instantiate: Instantiate, context: string): string;
  /** Pages of 64 KiB that the memories of the run have at its end. */
  pagesLeft(): number;
}

/**
 * Runs in the realm of an action, where there is nothing of Node.js: its text is evaluated there (`loaded-action.ts`), so
 * it may name nothing but its parameters and ECMAScript's own. The realm is the action's for as long as the host has it;
 * each `run` begins without what the one before has left here. Should a script have got into the glue, it must find
 * nothing here that leads out: the door and the modules are the only things of another realm, and nothing that the script
 * could have changed is ever given them.
 */
export function inside(
  outer: RealmBridge,
  held: readonly HeldModule[],
  makeWasi: (door: RealmBridge, counted: (view: unknown) => Uint8Array, log: (line: string) => void) => WasiStubs,
  harden: (...given: readonly object[]) => void,
): GuestBindings {
  /** What an action hands out in one run, each text counted with a little more than its bytes. */
  const MAX_TEXT_BYTES = 8 * 1024 * 1024;
  const TEXT_OVERHEAD = 16;
  /** What its response, or a question, may have as JSON. */
  const MAX_SAID_BYTES = 1024 * 1024;
  /** 64 MiB for all memories of a run. */
  const MAX_PAGES = 1024;
  const PAGE_BYTES = 65_536;
  const MAX_LOG_LINES = 200;
  const MAX_LOG_BYTES = 4096;
  /** Characters of what is told of a failure. */
  const MAX_MESSAGE = 300;
  const NO_ERROR = 'it threw something that is no error';
  /** How a line at level error begins in which an action says what it is about to fail of: the trap behind it cannot. */
  const UNCAUGHT = 'uncaught ';

  // Taken before any glue runs, which could put others in their place.
  const { parse, stringify } = JSON;
  const { Instance, Memory } = WebAssembly;
  const { apply } = Reflect;
  const { isError } = Error;
  const RealmError = Error;
  Object.defineProperty(Error, 'stackTraceLimit', { value: 0 });
  const getterOf = <T>(prototype: object, name: PropertyKey, none: T): (() => T) =>
    Object.getOwnPropertyDescriptor(prototype, name)?.get ?? (() => none);
  const boundsOf = (prototype: object) => ({
    buffer: getterOf(prototype, 'buffer', new ArrayBuffer(0)),
    byteOffset: getterOf(prototype, 'byteOffset', 0),
    byteLength: getterOf(prototype, 'byteLength', 0),
  });
  const typedArrays = Object.getPrototypeOf(Uint8Array.prototype);
  const nameOfTypedArray = getterOf<unknown>(typedArrays, Symbol.toStringTag, undefined);
  const boundsOfTypedArray = boundsOf(typedArrays);
  const boundsOfDataView = boundsOf(DataView.prototype);
  const { slice } = ArrayBuffer.prototype;
  const lengthOfBuffer = getterOf(ArrayBuffer.prototype, 'byteLength', 0);

  class LimitError extends Error {}
  class MemoryError extends Error {}

  /** What the outer realm throws for want of stack is of that realm, and must not be seen here. */
  const denied = (): Error => new RealmError('the service cannot be asked');
  const door: RealmBridge = {
    decode(bytes) {
      try {
        return outer.decode(bytes);
      } catch {
        throw denied();
      }
    },
    encodeInto(value, into) {
      try {
        return outer.encodeInto(value, into);
      } catch {
        throw denied();
      }
    },
    utf8Length(value) {
      try {
        return outer.utf8Length(value);
      } catch {
        throw denied();
      }
    },
    ask(kind, first, second) {
      try {
        return outer.ask(kind, first, second);
      } catch {
        throw denied();
      }
    },
    log(level, message) {
      try {
        outer.log(level, message);
      } catch {
        throw denied();
      }
    },
    randomFill(bytes) {
      try {
        outer.randomFill(bytes);
      } catch {
        throw denied();
      }
    },
    monotonicNanoseconds() {
      try {
        return outer.monotonicNanoseconds();
      } catch {
        throw denied();
      }
    },
    wallMilliseconds() {
      try {
        return outer.wallMilliseconds();
      } catch {
        throw denied();
      }
    },
  };

  // That of the realm goes on from run to run: where it stands could tell one of another.
  Math.random = () => {
    const bytes = new Uint8Array(8);
    door.randomFill(bytes);
    return Number(new DataView(bytes.buffer).getBigUint64(0) >> 11n) / 2 ** 53;
  };

  /** What glue has of a module: nothing that it could use but by giving it back. */
  class ModuleToken {
    readonly #held: HeldModule;
    constructor(module: HeldModule) {
      this.#held = module;
    }
    static heldBy(token: object): HeldModule {
      if (!(#held in token)) throw new TypeError('not a module');
      return token.#held;
    }
  }
  const { heldBy } = ModuleToken;
  const tokens: Record<string, ModuleToken> = Object.create(null);
  for (const module of held) tokens[module.name] = new ModuleToken(module);

  let text = 0;
  let copied = 0;
  let pages = 0;
  let memories: WebAssembly.Memory[] = [];
  let logLines = 0;
  let ignored = 0;
  /** JSON. */
  let response: string | undefined;
  /** No other response counts any more. */
  let final = false;
  let failure: Error | undefined;
  /** What the action says it fails of. */
  let uncaught: string | undefined;
  /** What was answered before, by question: each question is put once. */
  let known: Record<string, string> = Object.create(null);

  /** Errors of ours end the run even where the action's glue catches them. */
  const fail = (error: Error): never => {
    failure ??= error;
    throw error;
  };
  /** The bytes of a view, counted as text. Its members, which a script may have made, are not asked. */
  const counted = (view: unknown): Uint8Array => {
    const isTypedArray = apply(nameOfTypedArray, view, []) !== undefined;
    const { buffer, byteOffset, byteLength } = isTypedArray ? boundsOfTypedArray : boundsOfDataView;
    const bytes = new Uint8Array(apply(buffer, view, []), apply(byteOffset, view, []), apply(byteLength, view, []));
    text += bytes.length + TEXT_OVERHEAD;
    if (text > MAX_TEXT_BYTES) fail(new LimitError('it handed out more than 8 MiB of text'));
    return bytes;
  };
  // So glue takes lists of numbers out of a memory, before anybody is given them. Those of one argument may overlap: small
  // memories have large ones, which the limit of the heap does not know of.
  Object.assign(ArrayBuffer.prototype, {
    slice(this: ArrayBuffer, start?: number, end?: number): ArrayBuffer {
      const part = apply(slice, this, [start, end]);
      copied += apply(lengthOfBuffer, part, []);
      if (copied > MAX_TEXT_BYTES) fail(new LimitError('it handed out more than 8 MiB of bytes'));
      return part;
    },
  });
  /** Text, once and for all: something that a script made might be something else the next time. */
  const textOf = (value: unknown): string => `${value}`;
  const textsOf = (values: readonly unknown[]): string[] => {
    const texts: string[] = [];
    for (const value of values) texts.push(textOf(value));
    return texts;
  };

  class SafeTextDecoder {
    decode(view?: Uint8Array | DataView): string {
      if (view === undefined) return '';
      return door.decode(counted(view)) ?? fail(new TypeError('a string is not valid UTF-8'));
    }
  }
  class SafeTextEncoder {
    encode(value = ''): Uint8Array {
      const bytes = new Uint8Array(door.utf8Length(value));
      door.encodeInto(value, bytes);
      return bytes;
    }
    encodeInto(value: string, into: Uint8Array): { read: number; written: number } {
      return { read: value.length, written: door.encodeInto(value, into) };
    }
  }

  const isShort = (said: object): boolean => door.utf8Length(stringify(said)) <= MAX_SAID_BYTES;
  const ask = (kind: string, ...texts: (string | undefined)[]): string => {
    if (!isShort(texts)) fail(new LimitError('it asked with more than 1 MiB of text'));
    const answer = door.ask(kind, texts[0], texts[1]);
    if (answer === undefined) throw new TypeError('no question');
    return answer;
  };
  const askOnce = (kind: string, first?: string): unknown => {
    const key = first === undefined ? kind : `${kind} ${first}`;
    known[key] ??= ask(kind, first);
    return parse(known[key]);
  };

  /** All its members are text of ours by now. */
  const respond = (said: { kind: string; [member: string]: string | string[] }): void => {
    if (response !== undefined) ignored++;
    if (final) return;
    const json = stringify(said);
    if (door.utf8Length(json) > MAX_SAID_BYTES) fail(new LimitError('its response has more than 1 MiB'));
    response = json;
    final = said.kind === 'block' || said.kind === 'reject_malformed';
  };

  /** One count for all lines of a run, whichever way they come. */
  const log =
    (level: string) =>
    (message: string): void => {
      // What an engine prints of an error that has been told says no more.
      if (level === 'debug' && uncaught !== undefined) return;
      const line = textOf(message).slice(0, MAX_LOG_BYTES);
      if (level === 'error' && line.startsWith(UNCAUGHT)) uncaught = line.split('\n')[0]?.slice(UNCAUGHT.length);
      logLines++;
      if (logLines <= MAX_LOG_LINES) door.log(level, line);
      else if (logLines === MAX_LOG_LINES + 1) door.log('warn', 'it logs too much: the rest of this run is dropped');
    };

  const service: Record<string, object> = {
    'service:evaluator/registry': {
      listTools: () => askOnce('tools'),
      listToolsInNamespace: (namespace: string) => askOnce('tools', namespace),
      getTool: (name: string) => askOnce('tool', name) ?? undefined,
      copyToolToNamespace(name: string, namespace: string): boolean {
        known = Object.create(null);
        return parse(ask('copy', name, namespace)) === true;
      },
    },
    'service:evaluator/conversation': {
      getHistory: (conversation: string) => askOnce('history', conversation),
    },
    'service:evaluator/response': {
      pass: () => respond({ kind: 'pass' }),
      block: (reason: string) => respond({ kind: 'block', reason: textOf(reason) }),
      rejectMalformed: (reason: string) => respond({ kind: 'reject_malformed', reason: textOf(reason) }),
      warn: (message: string) => respond({ kind: 'warn', message: textOf(message) }),
      filterTools: (tools: string[]) => respond({ kind: 'filter_tools', tools: textsOf(tools) }),
      setMetadata: (key: string, value: string) =>
        respond({ kind: 'set_metadata', key: textOf(key), value: textOf(value) }),
    },
    'service:evaluator/validation': {
      verifyLlmResult(raw: string): string {
        // An LLM's answer has no more.
        const wrong = isShort([raw]) ? askOnce('verify', raw) : 'the text is longer than 1 MiB';
        // How the glue is told of an `err`.
        if (wrong !== null) throw { payload: String(wrong) };
        return raw;
      },
    },
    'service:evaluator/log': { info: log('info'), warn: log('warn'), error: log('error') },
    'service:evaluator/types': {},
  };

  const coreModule = (name: string): object => tokens[name] ?? fail(new TypeError(`no module ${name}`));
  const instantiateCore = (token: object, imports: object): WebAssembly.Instance => {
    const { module, pages: more } = heldBy(token);
    pages += more;
    if (pages > MAX_PAGES) fail(new MemoryError('its memories take more than 64 MiB'));
    const instance = new Instance(module, imports);
    for (const exported of Object.values(instance.exports)) {
      if (exported instanceof Memory && !memories.includes(exported)) memories.push(exported);
    }
    return instance;
  };

  const faultOf = (error: unknown): string => {
    if (error instanceof LimitError) return 'limit';
    if (error instanceof MemoryError) return 'memory';
    return error instanceof RangeError && /memory|allocat/i.test(error.message) ? 'memory' : 'trap';
  };
  /** JSON of it. */
  const failed = (error: Error): string => {
    let fault = 'trap';
    let message = NO_ERROR;
    try {
      fault = faultOf(error);
      const told = fault === 'trap' ? uncaught : undefined;
      message = (told ?? textOf(error.message)).slice(0, MAX_MESSAGE);
    } catch {
      // Its members are a script's.
    }
    return stringify({ kind: 'failed', fault, message });
  };

  harden(LimitError, MemoryError, SafeTextDecoder, SafeTextEncoder, service, tokens, coreModule, instantiateCore);

  return {
    TextDecoder: SafeTextDecoder,
    TextEncoder: SafeTextEncoder,

    pagesLeft() {
      let left = 0;
      for (const memory of memories) left += memory.buffer.byteLength / PAGE_BYTES;
      return left;
    },

    run(instantiate, context) {
      text = 0;
      copied = 0;
      pages = 0;
      memories = [];
      logLines = 0;
      ignored = 0;
      response = undefined;
      final = false;
      failure = undefined;
      uncaught = undefined;
      known = Object.create(null);
      try {
        let wasi: WasiStubs | undefined;
        const imports = new Proxy(service, {
          get(ours, name) {
            if (typeof name !== 'string') return undefined;
            if (name in ours) return ours[name];
            wasi ??= makeWasi(door, counted, log('debug'));
            return wasi.instance(name);
          },
        });
        instantiate(coreModule, imports, instantiateCore).evaluate(parse(context));
        wasi?.flush();
      } catch (error) {
        failure ??= isError(error) ? error : new Error(NO_ERROR);
      }
      known = Object.create(null);
      if (failure) return failed(failure);
      const said = response === undefined ? '' : `"response":${response},`;
      return `{"kind":"done",${said}"ignored":${ignored}}`;
    },
  };
}
