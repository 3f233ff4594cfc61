import fc from 'fast-check';
import type { Arbitraries } from './arbitrary.ts';
import { asJson, broken, type FuzzBody } from './bodies.ts';
import { isObject, type JsonObject, type Operation } from './document.ts';
import type { Pool } from './pool.ts';
import { spoiled } from './spoil.ts';

/** The body for the item with a number, or none. */
export type BodyOf = (item: number) => FuzzBody | undefined;

/** Bodies for an operation: as its schema wants them, and in every way not. */
export function requestBodies(operation: Operation, arbitraries: Arbitraries, pool: Pool): fc.Arbitrary<BodyOf> {
  const { body, collection, method } = operation;
  const none: fc.Arbitrary<BodyOf> = fc.constant(() => undefined);
  if (!body) {
    const junk = broken(fc.constant({ name: 'a' })).map(
      (made): BodyOf =>
        () =>
          made,
    );
    return method === 'GET' ? none : fc.oneof({ weight: 9, arbitrary: none }, { weight: 1, arbitrary: junk });
  }
  const { properties } = arbitraries.resolve(body.schema);
  const declared = Object.keys(isObject(properties) ? properties : {});
  const fitting = arbitraries.of(body.schema);
  /** What there is, sent back with some members changed. */
  const putBack = fc.tuple(fitting, fc.subarray(declared)).map(
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
    { weight: 6, arbitrary: made(fitting) },
    { weight: method === 'PUT' ? 4 : 1, arbitrary: putBack },
    { weight: 6, arbitrary: made(spoiled(fitting, declared)) },
    {
      weight: 3,
      arbitrary: broken(fitting).map(
        (broke): BodyOf =>
          () =>
            broke,
      ),
    },
    { weight: 1, arbitrary: none },
  );
}
