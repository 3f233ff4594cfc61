import { isUtf8 } from 'node:buffer';
import { evaluatorRevisionContent, validate } from '@sluice/contract';
import { applyEdits } from '@sluice/protocol/json/edit';
import { parseLossless } from '@sluice/protocol/json/parse';
import { elements, type Member, members } from '@sluice/protocol/json/scan';
import { z } from 'zod';
import { Damage } from '../../registry/store/damage.ts';
import { type Revisions, withinLimits } from './revisions.ts';

const id = z.number().int().positive();

const fileContent = z
  .object({ revisions: z.array(evaluatorRevisionContent), active_id: id.nullable(), next_id: id })
  .superRefine(({ revisions, active_id, next_id }, context) => {
    const refuse = (member: string, message: string) => context.addIssue({ code: 'custom', path: [member], message });
    revisions.forEach((revision, index) => {
      if (revision.id <= (revisions[index - 1]?.id ?? 0)) refuse('revisions', 'must have ids that rise');
      if ((revision.status === 'active') !== (revision.id === active_id)) {
        refuse('revisions', 'must have active_id as the one that is active');
      }
    });
    if (active_id !== null && !revisions.some((revision) => revision.id === active_id)) {
      refuse('active_id', 'must be the id of a revision');
    }
    if (next_id <= (revisions.at(-1)?.id ?? 0)) refuse('next_id', 'must be above the id of every revision');
  });

/**
 * Reads what `evaluator-revisions.json` holds. Throws {@link Damage}, which names `file`.
 *
 * Versions that had no limit of bytes wrote files that as objects would not fit into the memory. So the evaluators are
 * cut out before the rest is parsed, and those of the revisions that are kept are parsed one revision after the other.
 */
export function readRevisions(file: string, bytes: Buffer): Revisions {
  if (!isUtf8(bytes)) throw new Damage(file, 'is not valid UTF-8');
  const text = bytes.toString();
  const places = parsed(file, () => evaluatorsIn(text));
  const rest = applyEdits(
    text,
    places.flatMap((place) => (place ? [{ ...place, text: '[]' }] : [])),
  );
  const { revisions, active_id, next_id } = checked(file, fileContent, rest, []);
  const list = revisions.map(({ evaluators: _none, ...metadata }, index) => {
    const place = places[index];
    return { ...metadata, evaluatorsJson: text.slice(place?.start, place?.end) };
  });
  const kept = withinLimits({ list, activeId: active_id ?? undefined, nextId: next_id });
  return {
    ...kept,
    list: kept.list.map((revision) => {
      const path = ['revisions', list.indexOf(revision), 'evaluators'];
      const { evaluators } = evaluatorRevisionContent.shape;
      // Written anew: a part of the text would keep all of it in memory.
      return { ...revision, evaluatorsJson: JSON.stringify(checked(file, evaluators, revision.evaluatorsJson, path)) };
    }),
  };
}

/** Where the evaluators of each revision stand; undefined for one that has none. */
function evaluatorsIn(text: string): (Member | undefined)[] {
  const revisions = lastMember(text, 'revisions', 0);
  if (!revisions) return [];
  return [...elements(text, revisions.start)].map(({ start }) => lastMember(text, 'evaluators', start));
}

/** Of duplicates the last, which is the one that a parser keeps. */
function lastMember(text: string, name: string, start: number): Member | undefined {
  return [...members(text, start)].findLast(({ key }) => key === name);
}

function checked<T extends z.ZodType>(
  file: string,
  schema: T,
  text: string,
  path: readonly (string | number)[],
): z.output<T> {
  const value = parsed(file, () => parseLossless(text));
  const result = validate(schema, value);
  if ('value' in result) return result.value;
  const [first] = result.issues;
  const place = [...path, first?.path].filter((part) => part !== '').join('.');
  throw new Damage(file, `is damaged: ${place} ${first?.message}`);
}

function parsed<T>(file: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    // The parser repeats text of the file.
    throw new Damage(file, 'is not valid JSON', { cause: error });
  }
}
