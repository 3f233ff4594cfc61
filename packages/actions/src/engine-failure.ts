import { ActionBuildError } from './action-build-error.ts';
import type { Bundle } from './bundle/bundle.ts';
import { placeOfEvaluate, shown } from './bundle/place.ts';
import { ASYNC, NO_FUNCTION } from './runtime/unusable.ts';

/** A frame of the bundle, as one engine names it or the other. */
const FRAME = /\b(?:user|action)\.js:(\d+):(\d+)/g;

const TOO_EARLY = /service:evaluator\/[\w-]+ is called at the top level of a module; call it in evaluate/;

/**
 * Why an engine did not take a bundle, by what it says, with the place in the author's files: top-level code is all that
 * runs while a component is made, `evaluate` is looked at there, too.
 */
export async function engineFailure(cause: unknown, { origins, entry }: Bundle): Promise<ActionBuildError> {
  const message = cause instanceof Error ? cause.message : String(cause);
  const unusable = [ASYNC, NO_FUNCTION].find((problem) => message.includes(`: ${problem}`));
  if (unusable !== undefined) return new ActionBuildError([`${await placeOfEvaluate(entry)}: ${unusable}`], { cause });
  let place: string | undefined;
  for (const [, line, column] of message.matchAll(FRAME)) place ??= origins.placeOf(Number(line), Number(column));
  return new ActionBuildError([`${place ?? shown(entry)}: ${problem(message)}`], { cause });
}

function problem(message: string): string {
  const [early] = TOO_EARLY.exec(message) ?? [];
  if (early !== undefined) return early;
  // QuickJS says it in so many words, StarlingMonkey behind the place.
  const thrown =
    /module evaluation: (?:Error: )?([\s\S]+?)(?:\n +at |$)/.exec(message)?.[1] ??
    /top-level script\n(?:action\.js:\S+ )?(?:Error: )?(.+)/.exec(message)?.[1];
  const [line, failed] = [
    thrown ?? message,
    thrown === undefined ? 'no component was made' : 'the top level of a module failed',
  ];
  return `${failed}: ${line
    .replace(/\s+/g, ' ')
    .replace(/^[: ]+/, '')
    .trim()}`;
}
