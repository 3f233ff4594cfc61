/**
 * Long work on the registry is written as generators, which yield after each step: `TimeSlicer` then runs it in slices, so that a
 * catalog of 100,000 entries does not hold the event loop.
 */
export type Steps<T> = Generator<undefined, T, undefined>;

/** Items that are processed in one step. */
export const PER_STEP = 256;

/** True for work that is not done yet, false for its result. */
export function isSteps<T>(value: T | Steps<T>): value is Steps<T> {
  return Object.prototype.toString.call(value) === '[object Generator]';
}

/** Runs all steps at once. */
export function runSteps<T>(steps: Steps<T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Calls `process` for each item; fewer than usual in one step if it takes long. */
export function* forEachInSteps<T>(items: Iterable<T>, process: (item: T) => void, perStep = PER_STEP): Steps<void> {
  let count = 0;
  for (const item of items) {
    process(item);
    if (++count % perStep === 0) yield;
  }
}

/** Items that are sorted at once. */
const RUN = 2_048;

/** Returns the items in order; equal ones keep their order. */
export function* sortInSteps<T>(items: readonly T[], compare: (a: T, b: T) => number): Steps<readonly T[]> {
  // As most are: each merge of runs would need another array of all items.
  if (yield* isSorted(items, compare)) return items;
  let runs: T[][] = [];
  for (let at = 0; at < items.length; at += RUN) {
    runs.push(items.slice(at, at + RUN).sort(compare));
    yield;
  }
  while (runs.length > 1) {
    const merged: T[][] = [];
    for (let at = 0; at < runs.length; at += 2) merged.push(yield* merge(runs[at] ?? [], runs[at + 1] ?? [], compare));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* isSorted<T>(items: readonly T[], compare: (a: T, b: T) => number): Steps<boolean> {
  let [before] = items;
  let count = 0;
  for (const item of items) {
    if (before !== undefined && compare(before, item) > 0) return false;
    before = item;
    if (++count % RUN === 0) yield;
  }
  return true;
}

function* merge<T>(a: readonly T[], b: readonly T[], compare: (a: T, b: T) => number): Steps<T[]> {
  const merged: T[] = [];
  let at = 0;
  for (const [count, next] of b.entries()) {
    for (let first = a[at]; first !== undefined && compare(first, next) <= 0; first = a[++at]) merged.push(first);
    merged.push(next);
    if (count % RUN === 0) yield;
  }
  return merged.concat(a.slice(at));
}
