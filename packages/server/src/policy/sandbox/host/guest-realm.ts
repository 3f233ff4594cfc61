import type { ModuleInfo } from '../action.ts';
import type { RealmBridge } from './realm-bridge.ts';
import type { WasiStubs } from './wasi-stubs.ts';

/** Function that an action's glue evaluates to; evaluated again for each run. */
export type Instantiate = (
  coreModule: (name: string) => object,
  imports: object,
  instantiateCore: (module: object, imports: object) => WebAssembly.Instance,
) => { evaluate(context: unknown): unknown };

/** Compiled core module of an action. */
export interface CompiledModule extends ModuleInfo {
  readonly module: WebAssembly.Module;
}

/** Guest side of an action's realm. */
export interface GuestBindings {
  readonly TextDecoder: object;
  readonly TextEncoder: object;
  /** Takes JSON of the evaluation context; returns JSON of a `HostMessage` of the kind `done` or `failed`. */
  run(instantiate: Instantiate, context: string): string;
  /** Memory pages of 64 KiB at the end of the last run. */
  lastRunPages(): number;
}

/**
 * Creates the guest side of an action's realm, which has nothing of Node.js. The text of this function is evaluated in the
 * realm (`loaded-action.ts`), so it refers only to its parameters and ECMAScript's own. The realm lives as long as
 * the action is loaded; each `run` resets the state here. A script injected into the glue must not escape: the bridge
 * and the modules are the only objects of another realm, and they are never passed anything that the script could have
 * modified.
 */
export function createGuestBindings(
  hostBridge: RealmBridge,
  modules: readonly CompiledModule[],
  createWasiStubs: (
    bridge: RealmBridge,
    countedBytes: (view: unknown) => Uint8Array,
    log: (line: string) => void,
  ) => WasiStubs,
  freezeIntrinsics: (...roots: readonly object[]) => void,
): GuestBindings {
  /** Text that an action passes to the host in one run, each string counted with a small overhead. */
  const MAX_TEXT_BYTES = 8 * 1024 * 1024;
  const TEXT_OVERHEAD = 16;
  /** JSON of a response, and of the arguments of a call. */
  const MAX_MESSAGE_BYTES = 1024 * 1024;
  /** 64 MiB for all memories of a run. */
  const MAX_PAGES = 1024;
  const PAGE_BYTES = 65_536;
  const MAX_LOG_LINES = 200;
  const MAX_LOG_LINE_LENGTH = 4096;
  const MAX_FAILURE_MESSAGE_LENGTH = 300;
  const NOT_AN_ERROR = 'uncaught value that is not an Error';
  /** Prefix of an error line in which an action reports the exception that it is about to trap with. */
  const UNCAUGHT = 'uncaught ';

  // Captured before any glue runs, which could replace them.
  const { parse, stringify } = JSON;
  const { Instance, Memory } = WebAssembly;
  const { apply } = Reflect;
  const { isError } = Error;
  const RealmError = Error;
  Object.defineProperty(Error, 'stackTraceLimit', { value: 0 });
  const getterOf = <T>(prototype: object, name: PropertyKey, fallback: T): (() => T) =>
    Object.getOwnPropertyDescriptor(prototype, name)?.get ?? (() => fallback);
  const boundsOf = (prototype: object) => ({
    buffer: getterOf(prototype, 'buffer', new ArrayBuffer(0)),
    byteOffset: getterOf(prototype, 'byteOffset', 0),
    byteLength: getterOf(prototype, 'byteLength', 0),
  });
  const typedArrayPrototype = Object.getPrototypeOf(Uint8Array.prototype);
  const typedArrayName = getterOf<unknown>(typedArrayPrototype, Symbol.toStringTag, undefined);
  const typedArrayBounds = boundsOf(typedArrayPrototype);
  const dataViewBounds = boundsOf(DataView.prototype);
  const { slice } = ArrayBuffer.prototype;
  const bufferLength = getterOf(ArrayBuffer.prototype, 'byteLength', 0);

  class LimitError extends Error {}
  class MemoryError extends Error {}

  /** Replaces a stack overflow error of the host realm, which must not be visible here. */
  const guarded =
    <Args extends unknown[], Result>(hostFunction: (...args: Args) => Result) =>
    (...args: Args): Result => {
      try {
        return hostFunction(...args);
      } catch {
        throw new RealmError('host function unavailable');
      }
    };
  const bridge: RealmBridge = {
    decode: guarded(hostBridge.decode),
    decodeLossy: guarded(hostBridge.decodeLossy),
    encodeInto: guarded(hostBridge.encodeInto),
    utf8Length: guarded(hostBridge.utf8Length),
    call: guarded(hostBridge.call),
    log: guarded(hostBridge.log),
    randomFill: guarded(hostBridge.randomFill),
    monotonicNanoseconds: guarded(hostBridge.monotonicNanoseconds),
    wallMilliseconds: guarded(hostBridge.wallMilliseconds),
  };

  // The realm's own generator continues from run to run: its state could reveal information of an earlier run.
  Math.random = () => {
    const bytes = new Uint8Array(8);
    bridge.randomFill(bytes);
    return Number(new DataView(bytes.buffer).getBigUint64(0) >> 11n) / 2 ** 53;
  };

  /** Opaque reference to a module in glue, which can only pass it back. */
  class ModuleToken {
    readonly #module: CompiledModule;
    constructor(module: CompiledModule) {
      this.#module = module;
    }
    static moduleOf(token: object): CompiledModule {
      if (!(#module in token)) throw new TypeError('not a module');
      return token.#module;
    }
  }
  const { moduleOf } = ModuleToken;
  const tokens: Record<string, ModuleToken> = Object.create(null);
  for (const module of modules) tokens[module.name] = new ModuleToken(module);

  class Run {
    textBytes = 0;
    copiedBytes = 0;
    pages = 0;
    memories: WebAssembly.Memory[] = [];
    logLines = 0;
    ignoredResponses = 0;
    /** JSON of the response. */
    response: string | undefined = undefined;
    /** Further responses are ignored. */
    isFinal = false;
    failure: Error | undefined = undefined;
    /** Exception that the action has reported. */
    uncaught: string | undefined = undefined;
    /** Results of calls by name and argument: each call is sent once. */
    results: Record<string, string> = Object.create(null);
  }
  let current = new Run();

  /** Fails the run, even if the action's glue catches the error. */
  const fail = (error: Error): never => {
    current.failure ??= error;
    throw error;
  };
  /** The bytes of a view, counted as text. Reads no member of the view, which a script may have defined. */
  const countedBytes = (view: unknown): Uint8Array => {
    const isTypedArray = apply(typedArrayName, view, []) !== undefined;
    const { buffer, byteOffset, byteLength } = isTypedArray ? typedArrayBounds : dataViewBounds;
    const bytes = new Uint8Array(apply(buffer, view, []), apply(byteOffset, view, []), apply(byteLength, view, []));
    current.textBytes += bytes.length + TEXT_OVERHEAD;
    if (current.textBytes > MAX_TEXT_BYTES) fail(new LimitError('more than 8 MiB of text passed to the host'));
    return bytes;
  };
  // Glue copies lists of numbers out of memory this way before it passes them on. The lists of one argument may overlap:
  // a small memory can contain large ones, which the heap limit does not cover.
  Object.assign(ArrayBuffer.prototype, {
    slice(this: ArrayBuffer, start?: number, end?: number): ArrayBuffer {
      const part = apply(slice, this, [start, end]);
      current.copiedBytes += apply(bufferLength, part, []);
      if (current.copiedBytes > MAX_TEXT_BYTES) fail(new LimitError('more than 8 MiB of lists passed to the host'));
      return part;
    },
  });
  /** Converts to text once: an object of a script could convert to something else the next time. */
  const textOf = (value: unknown): string => `${value}`;
  const textsOf = (values: readonly unknown[]): string[] => {
    const texts: string[] = [];
    for (const value of values) texts.push(textOf(value));
    return texts;
  };

  class SafeTextDecoder {
    decode(view?: Uint8Array | DataView): string {
      if (view === undefined) return '';
      return bridge.decode(countedBytes(view)) ?? fail(new TypeError('string is not valid UTF-8'));
    }
  }
  class SafeTextEncoder {
    encode(value = ''): Uint8Array {
      const bytes = new Uint8Array(bridge.utf8Length(value));
      bridge.encodeInto(value, bytes);
      return bytes;
    }
    encodeInto(value: string, into: Uint8Array): { read: number; written: number } {
      return { read: value.length, written: bridge.encodeInto(value, into) };
    }
  }

  const fitsMessage = (value: object): boolean => bridge.utf8Length(stringify(value)) <= MAX_MESSAGE_BYTES;
  const call = (name: string, ...texts: (string | undefined)[]): string => {
    if (!fitsMessage(texts)) fail(new LimitError('arguments of a host function exceed 1 MiB'));
    const result = bridge.call(name, texts[0], texts[1]);
    if (result === undefined) throw new TypeError('invalid host function call');
    return result;
  };
  const callOnce = (name: string, first?: string): unknown => {
    const key = first === undefined ? name : `${name} ${first}`;
    current.results[key] ??= call(name, first);
    return parse(current.results[key]);
  };

  /** All members are our own text by now. */
  const respond = (value: { kind: string; [member: string]: string | string[] }): void => {
    if (current.response !== undefined) current.ignoredResponses++;
    if (current.isFinal) return;
    const json = stringify(value);
    if (bridge.utf8Length(json) > MAX_MESSAGE_BYTES) fail(new LimitError('response exceeds 1 MiB'));
    current.response = json;
    current.isFinal = value.kind === 'block' || value.kind === 'reject_malformed';
  };

  /** One line count per run, for log functions and output streams together. */
  const log =
    (level: string) =>
    (message: string): void => {
      // After a reported exception, the output of the engine adds nothing.
      if (level === 'debug' && current.uncaught !== undefined) return;
      const line = textOf(message).slice(0, MAX_LOG_LINE_LENGTH);
      if (level === 'error' && line.startsWith(UNCAUGHT))
        current.uncaught = line.split('\n')[0]?.slice(UNCAUGHT.length);
      current.logLines++;
      if (current.logLines <= MAX_LOG_LINES) bridge.log(level, line);
      else if (current.logLines === MAX_LOG_LINES + 1)
        bridge.log('warn', 'log limit reached: further lines of this run are dropped');
    };

  const service: Record<string, object> = {
    'service:evaluator/registry': {
      listTools: () => callOnce('tools'),
      listToolsInNamespace: (namespace: string) => callOnce('tools', namespace),
      getTool: (name: string) => callOnce('tool', name) ?? undefined,
      copyToolToNamespace(name: string, namespace: string): boolean {
        current.results = Object.create(null);
        return parse(call('copy', name, namespace)) === true;
      },
    },
    'service:evaluator/conversation': {
      getHistory: (conversation: string) => callOnce('history', conversation),
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
        // The output of an LLM is never longer.
        const violations = fitsMessage([raw]) ? callOnce('verify', raw) : 'the text is longer than 1 MiB';
        // How glue represents an `err`.
        if (violations !== null) throw { payload: String(violations) };
        return raw;
      },
    },
    'service:evaluator/log': { info: log('info'), warn: log('warn'), error: log('error') },
    'service:evaluator/types': {},
  };

  const coreModule = (name: string): object => tokens[name] ?? fail(new TypeError(`unknown module ${name}`));
  const instantiateCore = (token: object, imports: object): WebAssembly.Instance => {
    const { module, pages: maxPages } = moduleOf(token);
    current.pages += maxPages;
    if (current.pages > MAX_PAGES) fail(new MemoryError('memories exceed 64 MiB'));
    const instance = new Instance(module, imports);
    for (const exported of Object.values(instance.exports)) {
      if (exported instanceof Memory && !current.memories.includes(exported)) current.memories.push(exported);
    }
    return instance;
  };

  const faultOf = (error: unknown): string => {
    if (error instanceof LimitError) return 'limit';
    if (error instanceof MemoryError) return 'memory';
    return error instanceof RangeError && /memory|allocat/i.test(error.message) ? 'memory' : 'trap';
  };
  const failedMessage = (error: Error): string => {
    let fault = 'trap';
    let message = NOT_AN_ERROR;
    try {
      fault = faultOf(error);
      const reported = fault === 'trap' ? current.uncaught : undefined;
      message = (reported ?? textOf(error.message)).slice(0, MAX_FAILURE_MESSAGE_LENGTH);
    } catch {
      // A script may have defined its members.
    }
    return stringify({ kind: 'failed', fault, message });
  };

  freezeIntrinsics(
    LimitError,
    MemoryError,
    SafeTextDecoder,
    SafeTextEncoder,
    service,
    tokens,
    coreModule,
    instantiateCore,
  );

  return {
    TextDecoder: SafeTextDecoder,
    TextEncoder: SafeTextEncoder,

    lastRunPages() {
      let total = 0;
      for (const memory of current.memories) total += memory.buffer.byteLength / PAGE_BYTES;
      return total;
    },

    run(instantiate, context) {
      current = new Run();
      try {
        let wasi: WasiStubs | undefined;
        const imports = new Proxy(service, {
          get(own, name) {
            if (typeof name !== 'string') return undefined;
            if (name in own) return own[name];
            wasi ??= createWasiStubs(bridge, countedBytes, log('debug'));
            return wasi.instance(name);
          },
        });
        instantiate(coreModule, imports, instantiateCore).evaluate(parse(context));
        wasi?.flush();
      } catch (error) {
        current.failure ??= isError(error) ? error : new Error(NOT_AN_ERROR);
      }
      current.results = Object.create(null);
      if (current.failure) return failedMessage(current.failure);
      const responseMember = current.response === undefined ? '' : `"response":${current.response},`;
      return `{"kind":"done",${responseMember}"ignored":${current.ignoredResponses}}`;
    },
  };
}
