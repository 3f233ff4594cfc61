import { InvalidArgumentError, Option } from 'commander';

/** That a change is made only when nobody else has made one meanwhile. */
export interface ExpectedRevisionOption {
  readonly expectedRevision?: number;
}

/** `--expected-revision <n>`. */
export function expectedRevisionOption(): Option {
  return new Option('--expected-revision <n>', 'Fail unless this revision is active; 0 for none').argParser((text) =>
    parseWholeNumber(text, 0),
  );
}

/** A whole number that is not less than this. `or`: a sentence that says what else it may be. */
export function parseWholeNumber(text: string, least: number, or = ''): number {
  const number = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(number) && number >= least) return number;
  throw new InvalidArgumentError(`It must be a whole number from ${least}.${or}`);
}
