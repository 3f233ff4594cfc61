import { matchTemplate } from '@sluice/protocol/mcp/uri-template';
import { type Forward, isEnabled, isTemplate } from './entries.ts';
import type { Exposure } from './exposure.ts';
import type { EntryIndex } from './index.ts';

/**
 * Which uris of a forward clients may use. A resource that is in no list can still be requested: by a template, by a link
 * or because its forward is the only one with resources. So each uri is checked where a request leaves, as sent and fully
 * decoded: an upstream may decode it any number of times (decisions 10.1).
 */
export class ResourceAccess {
  readonly #forward: string;
  readonly #exposure: Exposure;
  readonly #indexes: readonly EntryIndex[];
  /** Uris of disabled resources, as listed and fully decoded. */
  readonly #disabled = new Set<string>();
  readonly #disabledTemplates: string[] = [];

  /** `indexes`: the resources of all namespaces, since an operator can move an entry to any. */
  constructor(forward: Forward, exposure: Exposure, indexes: readonly EntryIndex[]) {
    this.#forward = forward.name;
    this.#exposure = exposure;
    this.#indexes = indexes;
    const orphans = (forward.orphanedOverrides ?? []).filter((entry) => entry.kind === 'resource' && !isEnabled(entry));
    for (const entry of [...indexes.flatMap(({ disabled }) => disabled), ...orphans]) {
      if (entry.discovered?.forward !== forward.name) continue;
      this.#disabled.add(entry.key).add(decodeFully(entry.key));
      // A mark that waits for its entry does not know whether that is a template.
      if (isTemplate(entry) || entry.key.includes('{')) this.#disabledTemplates.push(entry.key);
    }
  }

  /** Whether both forms of the uri are exposed and not disabled. */
  allows(uri: string): boolean {
    if (this.#disabled.size === 0 && this.#exposure.exposesAll('resource')) return true;
    const decoded = decodeFully(uri);
    const forms = decoded === uri ? [uri] : [uri, decoded];
    if (!forms.every((form) => this.#exposure.exposes('resource', form))) return false;
    if (forms.some((form) => this.#disabled.has(form))) return false;
    const isDenied = forms.some((form) =>
      this.#disabledTemplates.some((template) => matchTemplate(template, form, true)),
    );
    return !isDenied || this.#isListed(uri);
  }

  /** A disabled template does not hide resources that the upstream lists by themselves. */
  #isListed(uri: string): boolean {
    return this.#indexes.some((index) => index.get(uri)?.discovered?.forward === this.#forward);
  }
}

const PERCENT = 0x25;

/**
 * Decodes percent-encoding until none is left, in linear time: a decoded byte that completes another encoded byte is
 * decoded with it.
 */
export function decodeFully(uri: string): string {
  if (!uri.includes('%')) return uri;
  const bytes = Buffer.from(uri);
  let length = 0;
  for (const byte of bytes) {
    bytes[length++] = byte;
    for (let decoded = encodedAt(bytes, length - 3); decoded !== undefined; decoded = encodedAt(bytes, length - 3)) {
      length -= 2;
      bytes[length - 1] = decoded;
    }
  }
  return bytes.toString('utf8', 0, length);
}

/** The byte that is percent-encoded at a position; undefined if there is none. */
function encodedAt(bytes: Buffer, at: number): number | undefined {
  if (at < 0 || bytes[at] !== PERCENT) return undefined;
  const [high, low] = [hexValue(bytes[at + 1]), hexValue(bytes[at + 2])];
  return high === undefined || low === undefined ? undefined : high * 16 + low;
}

function hexValue(byte: number | undefined): number | undefined {
  if (byte === undefined) return undefined;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined;
}
