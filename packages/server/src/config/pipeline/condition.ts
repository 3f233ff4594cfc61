import { z } from 'zod';
import { wantedHeaders } from './header-field.ts';

/** The path of a request, or what it begins with. */
export const path = z.string().regex(/^\/[!"$->@-~]*$/, {
  error: 'is not a path: / and then characters as they are sent, others as %20 and the like',
});

export const method = z.string().regex(/^[A-Z][A-Z-]*$/, { error: 'is not a method in capital letters, such as GET' });

const match = z
  .strictObject({
    path: path.optional(),
    path_prefix: path.optional(),
    methods: z.array(method).min(1, { error: 'names no method' }).optional(),
    headers: wantedHeaders.optional(),
  })
  .refine((conditions) => Object.values(conditions).some((value) => value !== undefined), {
    error: 'has none of path, path_prefix, methods, headers',
  });

/** What a request has to be for a condition. */
export type Match = z.output<typeof match>;
export type Condition = { readonly when: Match } | { readonly unless: Match };

/** When a filter is used: all conditions of a list have to hold, and all members of each (decisions 1.4). */
export const condition = z
  .strictObject({ when: match.optional(), unless: match.optional() })
  .transform(({ when, unless }, { addIssue }): Condition => {
    if (when && !unless) return { when };
    if (unless && !when) return { unless };
    addIssue({
      code: 'custom',
      message: when ? 'has both when and unless; make two conditions of it' : 'has neither when nor unless',
    });
    return z.NEVER;
  });
