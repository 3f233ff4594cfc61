import { type Evaluator, evaluatorInput, findUnknownMembers, type ValidationIssue, validate } from '@sluice/contract';
import { parseLossless } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { ConfigError } from './config-error.ts';
import { type Warn, warnOfStrangers } from './file-entry.ts';
import { quote } from './setting.ts';
import type { KeyPath, YamlFile } from './yaml-file.ts';

const SECTION = 'evaluators';

/** The long form: the body of `PUT /api/v1/evaluators`, so that one can be pasted. */
const longForm = z.object({ [SECTION]: z.unknown() });

/** The evaluators of the file. */
export interface FileEvaluators {
  /** Undefined when the key is absent or empty, which is not the same as an empty list: that clears them. */
  readonly evaluators: readonly Evaluator[] | undefined;
  /** Names of those that were left out, as far as they have any. */
  readonly unreadableEvaluators: readonly string[];
}

/**
 * What stands under `evaluators`: a list of evaluators, or `{evaluators: [...]}` (decisions 1.3). An evaluator that is not
 * one is left out, with a warning for each reason; whether one can be loaded is found out later. Throws
 * {@link ConfigError} for what is no list.
 */
export function parseEvaluators(file: YamlFile, warn: Warn): FileEvaluators {
  const given = file.content[SECTION] ?? undefined;
  if (given === undefined) return { evaluators: undefined, unreadableEvaluators: [] };
  const { path, list } = listOf(given, warn);
  if (!Array.isArray(list)) throw new ConfigError(`${file.where(path)}: ${SECTION}: is not a list of evaluators`);
  const evaluators: Evaluator[] = [];
  const unreadableEvaluators: string[] = [];
  for (const [index, item] of list.entries()) {
    const submitted = asJson(item);
    for (const { path: at, known } of findUnknownMembers(submitted)) {
      const ignored = `unknown member ${quote(at.join('.'))} is ignored; known members: ${known.join(', ')}`;
      warn([...path, index, ...at], ignored);
    }
    const result = validate(evaluatorInput, submitted);
    if ('value' in result) {
      evaluators.push(result.value);
      continue;
    }
    for (const refusal of result.issues) {
      const { at, problem } = problemOf(refusal);
      warn([...path, index, ...at], `${SECTION}[${index}] is left out: ${problem}`);
    }
    const name = evaluatorInput.shape.name.safeParse(Object(submitted).name).data;
    if (name) unreadableEvaluators.push(name);
  }
  return { evaluators, unreadableEvaluators };
}

function listOf(given: unknown, warn: Warn): { path: KeyPath; list: unknown } {
  if (typeof given !== 'object' || given === null || !(SECTION in given)) return { path: [SECTION], list: given };
  warnOfStrangers(given, longForm, [SECTION], warn);
  return { path: [SECTION, SECTION], list: given[SECTION] ?? [] };
}

function problemOf({ path, message }: ValidationIssue): { at: KeyPath; problem: string } {
  if (path === '') return { at: [], problem: 'is not a map with name, trigger, llm and processor' };
  return { at: path.split('.'), problem: `${path} ${message}` };
}

/** What a request would have carried; undefined for what JSON has no form for, such as an alias to what it stands in. */
function asJson(item: unknown): unknown {
  try {
    return parseLossless(JSON.stringify(item));
  } catch {
    return undefined;
  }
}
