import { z } from 'zod';
import { jsonObject, MOST } from './json.ts';

/** Labels: a map from text to text, replaced as a whole when it is written (decisions 2.3 to 2.7). */
export const labels = jsonObject
  // Not `z.record`, which leaves out a label that is called `__proto__`.
  .transform((object, context) => {
    const given = Object.entries(object);
    if (given.length > MOST) {
      context.addIssue({ code: 'custom', message: `must be at most ${MOST} labels` });
      return z.NEVER;
    }
    const texts: [string, string][] = [];
    for (const [name, value] of given) {
      if (typeof value === 'string') texts.push([name, value]);
      else context.addIssue({ code: 'invalid_type', expected: 'string', input: value, path: [name] });
    }
    return Object.fromEntries(texts);
  })
  .meta({ type: 'object', maxProperties: MOST, additionalProperties: { type: 'string' } });

export type Labels = z.infer<typeof labels>;
