/** What the text that the component tools print of a component's world says of its outermost level. */
export interface PrintedWorld {
  /** What it imports by name, in order: `wasi:io/poll@0.2.12`. */
  readonly imports: readonly string[];
  /** What it exports, by name; the text after the colon for functions and inline interfaces. */
  readonly exports: ReadonlyMap<string, string>;
  /** Where its types come from: its name for each to `interface.{name there}`. */
  readonly uses: ReadonlyMap<string, string>;
  /** The world's own records, by name: each member as `name: type`, in order. */
  readonly records: ReadonlyMap<string, readonly string[]>;
}

/**
 * Reads the printed text of `world root`. The printer writes one statement a line and indents by two blanks a level;
 * names in it are validated, and what an author wrote (documentation) stands behind `//` only.
 */
export function readPrintedWorld(text: string): PrintedWorld {
  const imports: string[] = [];
  const exports = new Map<string, string>();
  const uses = new Map<string, string>();
  const records = new Map<string, string[]>();
  let inside = false;
  let record: string[] | undefined;
  for (const line of text.split('\n')) {
    if (line.startsWith('world root {')) inside = true;
    else if (line.startsWith('}')) inside = false;
    const begun = inside ? /^ {2}record (\S+) \{/.exec(line)?.[1] : undefined;
    if (begun !== undefined) {
      record = [];
      records.set(bare(begun), record);
    } else if (line.startsWith('  }')) record = undefined;
    const member = /^ {4}([^/\s].*),$/.exec(line)?.[1];
    if (record && member !== undefined) record.push(bare(member));
    const statement = inside ? /^ {2}(import|export|use) (.*)$/.exec(line) : null;
    if (!statement) continue;
    const [, verb, rest = ''] = statement;
    if (verb === 'use') readUse(rest, uses);
    else if (verb === 'export') {
      const [, name = rest, what = ''] = /^(%?[A-Za-z0-9-]+): (.*)$/.exec(rest) ?? [];
      exports.set(bare(name), what.replace(/;$/, ''));
    } else imports.push(bare(rest));
  }
  return { imports, exports, uses, records };
}

function readUse(rest: string, uses: Map<string, string>): void {
  const [, from = '', names = ''] = /^(\S+)\.\{(.*)\};$/.exec(rest) ?? [];
  for (const item of names.split(', ')) {
    const [name = '', local = name] = item.split(' as ');
    uses.set(bare(local), `${from}.{${bare(name)}}`);
  }
}

/** A name without its end and without the mark of names that are keywords. */
function bare(name: string): string {
  return name.replace(/;$/, '').replace(/^%/, '');
}
