import type { Expose } from '@sluice/contract';
import { compileGlob, type Glob } from '@sluice/protocol/glob';
import { type ComparableUri, comparableGlobs, comparableUri } from './comparable-uri.ts';
import { type Forward, KINDS, type Kind, SECTION } from './entries.ts';

/** Longer names are denied by any rule: matching them with many globs would take too long. */
const MAX_CHARACTERS = 8_192;

interface Rules {
  /** Undefined: all. */
  readonly allow: readonly Glob[] | undefined;
  readonly deny: readonly Glob[];
}

/** Which entries of its upstream a forward exposes, by upstream names and uris. Immutable. */
export class Exposure {
  readonly #expose: Expose;
  readonly #rules = new Map<Kind, Rules>();

  constructor({ expose = {} }: Pick<Forward, 'expose'>) {
    this.#expose = expose;
    for (const kind of KINDS) {
      const { allow, deny = [] } = rulesOf(expose, kind);
      if (allow || deny.length > 0) {
        const compile = (globs: readonly string[], allows: boolean) =>
          globs.flatMap((glob) => (kind === 'resource' ? comparableGlobs(glob, allows) : [glob])).map(compileGlob);
        this.#rules.set(kind, { allow: allow && compile(allow, true), deny: compile(deny, false) });
      }
    }
  }

  /** Whether all objects of a kind are exposed. */
  exposesAll(kind: Kind): boolean {
    return !this.#rules.has(kind);
  }

  /** Whether the object with this upstream name, or resource with this uri or template, is exposed. */
  exposes(kind: Kind, upstreamKey: string): boolean {
    const rules = this.#rules.get(kind);
    if (!rules) return true;
    if (kind === 'resource') {
      const uri = comparableUri(upstreamKey);
      return uri !== undefined && this.exposesUri(uri);
    }
    if (upstreamKey.length > MAX_CHARACTERS) return false;
    const isMatch = (glob: Glob) => glob.matches(upstreamKey);
    return (rules.allow?.some(isMatch) ?? true) && !rules.deny.some(isMatch);
  }

  /** As {@link exposes}, of a resource: each form has to be allowed, and none may be denied. */
  exposesUri({ forms, texts }: ComparableUri): boolean {
    const { allow, deny = [] } = this.#rules.get('resource') ?? {};
    const isAllowed = (text: string) => allow?.some((glob) => glob.matches(text)) ?? true;
    return (
      forms.every(
        ({ normalized, decoded }) => isAllowed(normalized) || (decoded !== normalized && isAllowed(decoded)),
      ) && !deny.some((glob) => [...texts].some((text) => glob.matches(text)))
    );
  }

  /** Whether entries that appear after the first discovery are disabled. */
  disablesNew(kind: Kind): boolean {
    return rulesOf(this.#expose, kind).new === 'disabled';
  }
}

function rulesOf(expose: Expose, kind: Kind): NonNullable<Expose['tools']> {
  return expose[SECTION[kind]] ?? {};
}
