import fc from 'fast-check';
import type { Arbitraries } from './arbitrary.ts';
import { asJson, type FuzzBody, malformed } from './bodies.ts';
import { isObject, type JsonObject, type Operation } from './document.ts';
import { mutated } from './mutate.ts';
import type { Pool } from './pool.ts';

/** Returns the body for the item with a number, or none. */
export type BodyOf = (item: number) => FuzzBody | undefined;

/** Valid and invalid bodies for an operation. */
export function requestBodies(operation: Operation, arbitraries: Arbitraries, pool: Pool): fc.Arbitrary<BodyOf> {
  const { body, collection, method } = operation;
  const none: fc.Arbitrary<BodyOf> = fc.constant(() => undefined);
  if (!body) {
    const unexpectedBody = malformed(fc.constant({ name: 'a' })).map(
      (made): BodyOf =>
        () =>
          made,
    );
    return method === 'GET' ? none : fc.oneof({ weight: 9, arbitrary: none }, { weight: 1, arbitrary: unexpectedBody });
  }
  const { properties } = arbitraries.resolve(body.schema);
  const declared = Object.keys(isObject(properties) ? properties : {});
  const valid = arbitraries.of(body.schema);
  /** A known item with some members changed. */
  const modified = fc.tuple(valid, fc.subarray(declared)).map(
    ([value, changed]): BodyOf =>
      (item) => {
        const fresh: JsonObject = isObject(value) ? value : {};
        const members = changed.flatMap((name) => (Object.hasOwn(fresh, name) ? [[name, fresh[name]] as const] : []));
        return asJson(Object.fromEntries([...Object.entries(pool.item(collection, item) ?? {}), ...members]));
      },
  );
  const made = (values: fc.Arbitrary<unknown>) =>
    values.map(
      (value): BodyOf =>
        () =>
          asJson(value),
    );
  return fc.oneof(
    { weight: 6, arbitrary: made(valid) },
    { weight: method === 'PUT' ? 4 : 1, arbitrary: modified },
    { weight: 6, arbitrary: made(mutated(valid, declared)) },
    {
      weight: 3,
      arbitrary: malformed(valid).map(
        (changed): BodyOf =>
          () =>
            changed,
      ),
    },
    { weight: 1, arbitrary: none },
  );
}
