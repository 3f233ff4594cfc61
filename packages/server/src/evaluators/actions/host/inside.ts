import type { WasiStubs } from './wasi-stubs.ts';

/**
 * What leads out of the realm that an action's glue runs in. Only text, numbers and views of memory pass, and nothing
 * here throws.
 */
export interface Door {
  /** The text of UTF-8; undefined where it is none. */
  decode(bytes: Uint8Array): string | undefined;
  /** Writes UTF-8 and returns how many bytes it took. */
  encodeInto(text: string, into: Uint8Array): number;
  utf8Length(text: string): number;
  /** A `Question` as JSON to the text of its answer. */
  ask(question: string): string;
  log(level: string, message: string): void;
  randomFill(bytes: Uint8Array): void;
  monotonicNanoseconds(): bigint;
  wallMilliseconds(): number;
}

/** What an action's glue gives: made anew for each run. */
export type Instantiate = (
  coreModule: (name: string) => WebAssembly.Module,
  imports: object,
  instantiateCore: (module: WebAssembly.Module, imports: object) => WebAssembly.Instance,
) => { evaluate(context: unknown): unknown };

/** The inner side of a realm. */
export interface Inside {
  /** Before the glue comes in. */
  addModule(name: string, bytes: Uint8Array, pages: number): void;
  readonly TextDecoder: object;
  readonly TextEncoder: object;
  /** `context` is JSON, and so is what comes back: a `FromHost` of the kind `done` or `failed`. */
  run(instantiate: Instantiate, context: string): string;
  /** Pages of 64 KiB that the memories of the last run had at its end: garbage now. */
  pagesLeft(): number;
}

/**
 * Runs in the realm of one action, where there is nothing of Node.js: its text is evaluated there (`realm.ts`), so it
 * may name nothing but its parameters and ECMAScript's own. An instance's memory, what it said and what it was answered
 * are those of one run.
 */
export function inside(door: Door, makeWasi: (door: Door, countText: (bytes: number) => void) => WasiStubs): Inside {
  /** What an action hands out in one run, each text counted with a little more than its bytes. */
  const MAX_TEXT_BYTES = 8 * 1024 * 1024;
  const TEXT_OVERHEAD = 16;
  /** What its response may have. */
  const MAX_RESPONSE_BYTES = 1024 * 1024;
  /** 64 MiB for all memories of a run. */
  const MAX_PAGES = 1024;
  const PAGE_BYTES = 65_536;
  const MAX_LOG_LINES = 200;
  const MAX_LOG_BYTES = 4096;

  class LimitError extends Error {}
  class MemoryError extends Error {}

  let text = 0;
  let pages = 0;
  let memories: WebAssembly.Memory[] = [];
  let logLines = 0;
  let ignored = 0;
  let response: { kind: string; [member: string]: unknown } | undefined;
  let failure: Error | undefined;
  let known = new Map<string, string>();

  /** Errors of ours end the run even where the action's glue catches them. */
  const fail = (error: Error): never => {
    failure ??= error;
    throw error;
  };
  const countText = (bytes: number): void => {
    text += bytes + TEXT_OVERHEAD;
    if (text > MAX_TEXT_BYTES) fail(new LimitError('it handed out more than 8 MiB of text'));
  };

  class SafeTextDecoder {
    decode(view?: Uint8Array | DataView): string {
      if (view === undefined) return '';
      countText(view.byteLength);
      const decoded = door.decode(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
      return decoded ?? fail(new TypeError('a string is not valid UTF-8'));
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

  const ask = (question: object): string => door.ask(JSON.stringify(question));
  const askOnce = (question: object): unknown => {
    const key = JSON.stringify(question);
    let answer = known.get(key);
    if (answer === undefined) {
      answer = door.ask(key);
      known.set(key, answer);
    }
    return JSON.parse(answer);
  };

  const respond = (kind: string, member?: string, value?: string | string[], more?: object): void => {
    if (response?.kind === 'block' || response?.kind === 'reject_malformed') {
      ignored++;
      return;
    }
    if (response !== undefined) ignored++;
    const said = member === undefined ? { kind } : { kind, [member]: value, ...more };
    if (door.utf8Length(JSON.stringify(said)) > MAX_RESPONSE_BYTES) {
      fail(new LimitError('its response has more than 1 MiB'));
    }
    response = said;
  };

  const log =
    (level: string) =>
    (message: string): void => {
      logLines++;
      if (logLines <= MAX_LOG_LINES) door.log(level, message.slice(0, MAX_LOG_BYTES));
      else if (logLines === MAX_LOG_LINES + 1) door.log('warn', 'it logs too much: the rest of this run is dropped');
    };

  const service: Record<string, object> = {
    'service:evaluator/registry': {
      listTools: () => askOnce({ ask: 'tools' }),
      listToolsInNamespace: (namespace: string) => askOnce({ ask: 'tools', namespace }),
      getTool: (name: string) => askOnce({ ask: 'tool', name }) ?? undefined,
      copyToolToNamespace(name: string, namespace: string): boolean {
        known = new Map();
        return JSON.parse(ask({ ask: 'copy', name, namespace })) === true;
      },
    },
    'service:evaluator/conversation': {
      getHistory: (conversation: string) => askOnce({ ask: 'history', conversation }),
    },
    'service:evaluator/response': {
      pass: () => respond('pass'),
      block: (reason: string) => respond('block', 'reason', reason),
      rejectMalformed: (reason: string) => respond('reject_malformed', 'reason', reason),
      warn: (message: string) => respond('warn', 'message', message),
      filterTools: (tools: string[]) => respond('filter_tools', 'tools', tools),
      setMetadata: (key: string, value: string) => respond('set_metadata', 'key', key, { value }),
    },
    'service:evaluator/validation': {
      verifyLlmResult(raw: string): string {
        const wrong = askOnce({ ask: 'verify', raw });
        // How the glue is told of an `err`.
        if (wrong !== null) throw { payload: String(wrong) };
        return raw;
      },
    },
    'service:evaluator/log': { info: log('info'), warn: log('warn'), error: log('error') },
    'service:evaluator/types': {},
  };

  const modules = new Map<string, WebAssembly.Module>();
  const pagesOf = new Map<object, number>();
  const coreModule = (name: string): WebAssembly.Module =>
    modules.get(name) ?? fail(new TypeError(`no module ${name}`));
  const instantiateCore = (module: WebAssembly.Module, imports: object): WebAssembly.Instance => {
    pages += pagesOf.get(module) ?? 0;
    if (pages > MAX_PAGES) fail(new MemoryError('its memories take more than 64 MiB'));
    const instance = new WebAssembly.Instance(module, imports);
    for (const exported of Object.values(instance.exports)) {
      if (exported instanceof WebAssembly.Memory && !memories.includes(exported)) memories.push(exported);
    }
    return instance;
  };

  const faultOf = (error: unknown): string => {
    if (error instanceof LimitError) return 'limit';
    if (error instanceof MemoryError) return 'memory';
    return error instanceof RangeError && /memory|allocat/i.test(error.message) ? 'memory' : 'trap';
  };
  const messageOf = (error: unknown): string => {
    const message = error instanceof Error ? error.message : 'it threw something that is no error';
    return message.slice(0, 300);
  };

  return {
    TextDecoder: SafeTextDecoder,
    TextEncoder: SafeTextEncoder,

    addModule(name, bytes, ofPages) {
      const module = new WebAssembly.Module(bytes);
      modules.set(name, module);
      pagesOf.set(module, ofPages);
    },

    pagesLeft() {
      let left = 0;
      for (const memory of memories) left += memory.buffer.byteLength / PAGE_BYTES;
      memories = [];
      return left;
    },

    run(instantiate, context) {
      text = 0;
      pages = 0;
      memories = [];
      logLines = 0;
      ignored = 0;
      response = undefined;
      failure = undefined;
      known = new Map();
      try {
        let wasi: WasiStubs | undefined;
        const imports = new Proxy(service, {
          get(ours, name) {
            if (typeof name !== 'string') return undefined;
            if (name in ours) return ours[name];
            wasi ??= makeWasi(door, countText);
            return wasi.instance(name);
          },
        });
        instantiate(coreModule, imports, instantiateCore).evaluate(JSON.parse(context));
        wasi?.flush();
      } catch (error) {
        failure ??= error instanceof Error ? error : new Error('it threw something that is no error');
      }
      // The answers of one run are not kept for the next.
      known = new Map();
      if (failure) return JSON.stringify({ kind: 'failed', fault: faultOf(failure), message: messageOf(failure) });
      return JSON.stringify({ kind: 'done', response, ignored });
    },
  };
}
