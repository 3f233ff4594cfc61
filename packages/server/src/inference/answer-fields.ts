import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';

/** Maximum length of a recorded id or model, in characters. */
export const MAX_NAME_CHARACTERS = 256;

/**
 * What is read from an answer of any length.
 *
 * - `index`: position of the choice that the object describes; without it, that in the list
 * - `finish`: why the choice, or the answer, ended
 * - `status`, `incomplete`: the state of an answer, and why it is incomplete
 * - `error`: an object or text that describes an error; `errorType` and `errorCode` are its kind
 */
export type AnswerField =
  | 'id'
  | 'model'
  | 'inputTokens'
  | 'outputTokens'
  | 'index'
  | 'finish'
  | 'status'
  | 'incomplete'
  | 'error'
  | 'errorType'
  | 'errorCode';

/** Fields by their paths in the JSON of an answer or event: `choices[].finish_reason`. */
export type FieldPaths = Readonly<Record<string, AnswerField>>;

/** Members of JSON in which there are fields. */
export class FieldTree {
  /** All of its fields. */
  readonly paths: FieldPaths;
  /** Field that the value itself is. */
  field: AnswerField | undefined = undefined;
  /** Elements, if the value is an array. */
  each: FieldTree | undefined = undefined;
  /** Whether the value is a choice with its position. */
  hasIndex = false;
  readonly members = new Map<string, FieldTree>();
  /** The members, for reading each event: iterating over a map costs more. */
  readonly list: { readonly name: string; readonly tree: FieldTree }[] = [];

  constructor(...all: readonly FieldPaths[]) {
    this.paths = Object.assign({}, ...all);
    for (const [path, field] of Object.entries(this.paths)) this.#at(path).field = field;
  }

  #at(path: string): FieldTree {
    let tree: FieldTree = this;
    for (const name of path.replaceAll('[]', '.[]').split('.')) {
      if (name === '[]') tree = tree.each ??= new FieldTree();
      else tree = tree.#member(name);
    }
    return tree;
  }

  #member(name: string): FieldTree {
    return this.members.getOrInsertComputed(name, () => {
      const tree = new FieldTree();
      this.hasIndex ||= name === 'index';
      this.list.push({ name, tree });
      return tree;
    });
  }
}

const MAX_REASONS = 8;
const MAX_REASON_CHARACTERS = 64;
/** States of an answer that has ended. */
const ENDED: ReadonlySet<string> = new Set(['completed', 'incomplete', 'failed', 'cancelled']);
/** Kinds of errors are values of metrics and must not be texts. */
const IDENTIFIER = /^[A-Za-z0-9_.:-]{1,64}$/;
/** Kind of an error without an identifier (OpenTelemetry's conventions, `error.type`). */
const OTHER_ERROR = '_OTHER';

/** Fields of one answer. */
export class AnswerFields {
  /** The first that is not empty, of at most 256 characters. */
  id: string | undefined = undefined;
  /** Likewise. */
  model: string | undefined = undefined;
  /** The last number. */
  inputTokens: number | undefined = undefined;
  /** Likewise. */
  outputTokens: number | undefined = undefined;
  #hasError = false;
  #errorType: string | undefined = undefined;
  #errorCode: string | undefined = undefined;
  readonly #reasons = new Map<number, string>();
  #status: string | undefined = undefined;
  #incomplete: string | undefined = undefined;

  /** Sets a field. `at` is the position of the choice. */
  set(field: AnswerField, value: JsonValue, at: number): void {
    switch (field) {
      case 'id':
      case 'model':
        if (this[field] === undefined && isName(value)) this[field] = value;
        break;
      case 'inputTokens':
      case 'outputTokens':
        if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) this[field] = value;
        break;
      case 'finish':
        if (typeof value === 'string' && value !== '' && (this.#reasons.has(at) || this.#reasons.size < MAX_REASONS)) {
          this.#reasons.set(at, value.slice(0, MAX_REASON_CHARACTERS));
        }
        break;
      case 'status':
        if (typeof value === 'string') this.#status = value;
        break;
      case 'incomplete':
        if (typeof value === 'string') this.#incomplete = value.slice(0, MAX_REASON_CHARACTERS);
        break;
      case 'error':
        this.#hasError ||= isJsonObject(value) || (typeof value === 'string' && value !== '');
        break;
      case 'errorType':
        this.#errorType ??= identifierOf(value);
        break;
      case 'errorCode':
        this.#errorCode ??= identifierOf(value);
        break;
      case 'index':
    }
  }

  /** Reads the fields of a value. */
  read(tree: FieldTree, value: JsonValue, position = 0): void {
    if (tree.field !== undefined) this.set(tree.field, value, position);
    if (Array.isArray(value)) {
      if (tree.each) for (let at = 0; at < value.length; at++) this.read(tree.each, value[at] ?? null, at);
      return;
    }
    if (tree.list.length === 0 || !isJsonObject(value)) return;
    const at = tree.hasIndex && typeof value.index === 'number' ? value.index : position;
    for (const { name, tree: member } of tree.list) {
      const found = value[name];
      if (found !== undefined && found !== null) this.read(member, found, at);
    }
  }

  /** Kind of the error that the answer has; `_OTHER` if that is no identifier. */
  get errorType(): string | undefined {
    return this.#hasError ? (this.#errorType ?? this.#errorCode ?? OTHER_ERROR) : undefined;
  }

  /** Why the choices have ended, in their order; or the answer, if it has no choices. */
  get finishReasons(): readonly string[] {
    if (this.#reasons.size > 0) return [...this.#reasons].sort(([a], [b]) => a - b).map(([, reason]) => reason);
    const reason = this.#incomplete ?? this.#status;
    return this.#status !== undefined && ENDED.has(this.#status) && reason !== undefined ? [reason] : [];
  }
}

function isName(value: JsonValue): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_NAME_CHARACTERS;
}

function identifierOf(value: JsonValue): string | undefined {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && IDENTIFIER.test(text) ? text : undefined;
}
