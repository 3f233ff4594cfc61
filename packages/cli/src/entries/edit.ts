import { parseLossless } from '@sluice/protocol/json/parse';
import { explain } from '../connection/explain.ts';
import type { Context } from '../context.ts';
import { Failure } from '../failure.ts';
import { readDocument } from '../files/document.ts';
import { editText } from './editor.ts';
import { type Entry, placeOf, writable } from './entry.ts';
import type { EntryCalls } from './entry-calls.ts';
import { findEntry } from './find-entry.ts';
import { isNewNamespace, NEW } from './new-namespace.ts';
import type { Selection } from './selection.ts';

/** What is to become of an entry: `file`, or `fields`, or neither. */
export interface Change {
  /** A file with the whole entry, or `-`. */
  readonly file: string | undefined;
  /** Makes the changed entry of the present one. */
  readonly fields: ((entry: Readonly<Record<string, unknown>>) => Promise<unknown>) | undefined;
  /** The namespace that the fields move it to. */
  readonly moveTo: string | undefined;
}

/** The entry that is edited, and how it is written back. */
interface Editing {
  readonly calls: EntryCalls;
  readonly entry: Readonly<Record<string, unknown>>;
  readonly put: (changed: unknown) => Promise<Entry>;
  readonly name: string;
}

/**
 * Changes an entry: by the fields that were given, by a file with the whole of it, or, where neither was given, in the
 * operator's editor.
 */
export async function edit(
  context: Context,
  calls: EntryCalls,
  name: string,
  selection: Selection,
  { file, fields, moveTo }: Change,
): Promise<void> {
  if (file !== undefined && fields) throw new Failure('--file has the whole entry: give no fields with it');
  const client = await context.connect();
  const put = (changed: unknown) => calls.update(client, name, selection, changed);
  const replacement = file === undefined ? undefined : await readDocument(file, context.terminal);
  const entry = writable(await findEntry(client, calls, name, selection));
  const output = context.output();
  const isNew = await isNewNamespace(client, moveTo);
  const updated =
    replacement !== undefined
      ? await put(replacement)
      : fields
        ? await put(await fields(entry))
        : await inEditor(context, { calls, entry, put, name });
  if (updated === undefined) output.done(entry, `${calls.kind} ${name}: nothing was changed`);
  else output.done(updated, `changed ${calls.kind} ${updated.name}${placeOf(updated, 'in')}${isNew ? NEW : ''}`);
}

/**
 * Undefined when the text came back as it was. JSON, because that keeps every number as it is spelled. What the operator
 * has written is kept until the service has taken it.
 */
async function inEditor(context: Context, { calls, entry, put, name }: Editing): Promise<Entry | undefined> {
  const before = `${JSON.stringify(entry, null, 2)}\n`;
  const { text, file, discard } = await editText(context.terminal, `${calls.kind}.json`, before);
  try {
    const updated = text === before ? undefined : await put(parseLossless(text));
    await discard();
    return updated;
  } catch (error) {
    const { message, notes } = explain(error, context.options().host);
    const again = `what was written is kept: sluice ${calls.kind}s edit ${name} --file ${file}`;
    throw new Failure(message, { notes: [...notes, again], cause: error });
  }
}
