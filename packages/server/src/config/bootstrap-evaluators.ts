import { check, type Evaluator, evaluatorInput, unknownMembers } from '@sluice/contract';
import { parseLossless } from '@sluice/json/lossless';
import { z } from 'zod';
import { ConfigError } from './config-error.ts';
import { type Warn, warnOfStrangers } from './file-entry.ts';
import { quote } from './setting.ts';
import type { KeyPath, YamlFile } from './yaml-file.ts';

const KEY = 'evaluators';

/** The long form: the body of `PUT /api/v1/evaluators`, so that one can be pasted. */
const longForm = z.object({ [KEY]: z.unknown() });

/**
 * What stands under `evaluators`: a list of evaluators, or `{evaluators: [...]}` (decisions 1.3). Undefined when the key
 * is absent or empty, which is not the same as an empty list: that clears them. An evaluator that is not one is left out
 * with a warning; whether one can be loaded is found out later. Throws {@link ConfigError} for what is no list.
 */
export function parseEvaluators(file: YamlFile, warn: Warn): readonly Evaluator[] | undefined {
  const given = file.content[KEY] ?? undefined;
  if (given === undefined) return undefined;
  const { path, list } = listOf(given, warn);
  if (!Array.isArray(list)) throw new ConfigError(`${file.where(path)}: ${KEY}: is not a list of evaluators`);
  return list.flatMap((item: unknown, index) => {
    const result = parseEvaluator(item);
    if ('evaluator' in result) {
      for (const { path: at, known } of unknownMembers(item)) {
        const ignored = `unknown member ${quote(at.join('.'))} is ignored; known members: ${known.join(', ')}`;
        warn([...path, index, ...at], ignored);
      }
      return [result.evaluator];
    }
    const { at, problem } = result;
    warn([...path, index, ...at], `${KEY}[${index}] is left out: ${problem}`);
    return [];
  });
}

function listOf(given: unknown, warn: Warn): { path: KeyPath; list: unknown } {
  if (typeof given !== 'object' || given === null || !(KEY in given)) return { path: [KEY], list: given };
  warnOfStrangers(given, longForm, [KEY], warn);
  return { path: [KEY, KEY], list: given[KEY] ?? [] };
}

type Parsed = { readonly evaluator: Evaluator } | { readonly at: KeyPath; readonly problem: string };

/** By the rules of the management API. */
function parseEvaluator(item: unknown): Parsed {
  const result = check(evaluatorInput, asJson(item));
  if ('value' in result) return { evaluator: result.value };
  const [first] = result.refusals;
  if (first === undefined || first.path === '')
    return { at: [], problem: 'is not a map with name, trigger, llm and processor' };
  return { at: first.path.split('.'), problem: `${first.path} ${first.message}` };
}

/** What a request would have carried; undefined for what JSON has no form for, such as an alias to what it stands in. */
function asJson(item: unknown): unknown {
  try {
    return parseLossless(JSON.stringify(item));
  } catch {
    return undefined;
  }
}
