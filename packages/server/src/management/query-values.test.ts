import { allOperations } from '@sluice/contract';
import { expect, test } from 'vitest';
import { OperationError } from '../registry/operation-error.ts';
import { dataResponse } from './responses.ts';
import { Router } from './router.ts';

const ENUMERATED = allOperations.flatMap((operation) =>
  Object.entries(operation.query ?? {}).flatMap(([name, { values }]) => (values ? [{ operation, name, values }] : [])),
);

/** Sends a request with this value of the parameter; returns the error. */
function errorOf({ operation, name }: (typeof ENUMERATED)[number], value: string | undefined): unknown {
  const router = new Router();
  router.add(operation, () => dataResponse('null'));
  const route = router.find(operation.method, operation.path.replace(/\{\w+\}/, 'x'));
  const query = (parameter: string) => (parameter === name ? value : undefined);
  try {
    // The route does not read the request itself.
    route?.handle({ name: '', query } as Parameters<typeof route.handle>[0], Buffer.alloc(0));
    return undefined;
  } catch (error) {
    return error;
  }
}

test('there are such parameters', () => {
  expect(ENUMERATED.map(({ name }) => name)).toEqual(expect.arrayContaining(['category', 'state', 'by', 'include']));
});

test.each(ENUMERATED.map((one) => [`${one.operation.id} ?${one.name}=`, one] as const))(
  '%s accepts its values, and names them when it rejects another one',
  (_, one) => {
    for (const value of [undefined, ...one.values]) expect(errorOf(one, value)).toBeUndefined();
    for (const value of ['NOPE', '', `${one.values[0]} `]) {
      const error = errorOf(one, value);
      expect(error).toBeInstanceOf(OperationError);
      expect(error).toMatchObject({ code: 'BAD_REQUEST', message: expect.stringContaining(`invalid ${one.name} `) });
      for (const known of one.values) expect(String(error)).toContain(known.split(',')[0]);
    }
  },
);
