import type { Client } from '@sluice/contract/client';
import { parseLossless } from '@sluice/json/lossless';
import { explain } from '../connection/explain.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import { editText } from './editor.ts';
import { type Entry, type EntryKind, type Selection, writable } from './kind.ts';
import { selectionOf } from './selection.ts';

/** Options of every `edit`, beside the fields of its kind. */
export interface EditOptions extends Selection {
  /** A file with the whole entry, or `-`. */
  readonly file?: string;
}

/** The entry that is edited, and how it is written back. */
interface Editing {
  readonly kind: EntryKind;
  readonly entry: Readonly<Record<string, unknown>>;
  readonly put: (changed: unknown) => Promise<Entry>;
  readonly name: string;
}

/**
 * Changes an entry: by the fields that were given, by a file with the whole of it, or, where neither was given, in the
 * operator's editor. `fields` makes the changed entry of the present one, and is undefined without fields.
 */
export async function edit(
  context: Context,
  kind: EntryKind,
  name: string,
  options: EditOptions,
  fields: ((entry: Readonly<Record<string, unknown>>) => unknown) | undefined,
): Promise<void> {
  const { file } = options;
  if (file !== undefined && fields) throw new Failure('--file has the whole entry: give no fields with it');
  const client: Client = await context.connect();
  const selection = selectionOf(options);
  const put = (changed: unknown) => kind.update(client, name, selection, changed);
  const replacement = file === undefined ? undefined : await readDocument(file, context.terminal);
  const entry = writable(await kind.get(client, name, selection));
  const output = context.output();
  const updated =
    replacement !== undefined
      ? await put(replacement)
      : fields
        ? await put(await fields(entry))
        : await inEditor(context, { kind, entry, put, name });
  if (updated === undefined) output.done(entry, `${kind.kind} ${name}: nothing was changed`);
  else output.done(updated, `changed ${kind.kind} ${updated.name}`);
}

/**
 * Undefined when the text came back as it was. JSON, because that keeps every number as it is spelled. What the operator
 * has written is kept until the service has taken it.
 */
async function inEditor(context: Context, { kind, entry, put, name }: Editing): Promise<Entry | undefined> {
  const before = `${JSON.stringify(entry, null, 2)}\n`;
  const { text, file, discard } = await editText(context.terminal, `${kind.kind}.json`, before);
  try {
    const updated = text === before ? undefined : await put(parseLossless(text));
    await discard();
    return updated;
  } catch (error) {
    const { message, notes } = explain(error, context.options().host);
    const again = `what was written is kept: sluice ${kind.kind}s edit ${name} --file ${file}`;
    throw new Failure(message, { notes: [...notes, again], cause: error });
  }
}
