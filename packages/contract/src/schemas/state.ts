import { z } from 'zod';
import { toolAliases, toolInput, toolMembers } from './entries.ts';
import { evaluatorInput } from './evaluators.ts';
import { exposePatch } from './expose.ts';
import { entryName, existingName } from './fields.ts';
import { forwardHeadersPatch } from './forward-headers.ts';
import { forwardInput } from './forwards.ts';
import { identitySettings } from './identity.ts';
import { jsonObject, jsonValue, withAliases } from './json.ts';
import { namespaceInput } from './namespaces.ts';
import { serviceInput } from './services.ts';

/** Labels with the prefix of the service that operators set. */
const OPERATOR_LABELS: ReadonlySet<string> = new Set(['service.forward_headers', 'service.task']);

/** Whether a label is set by the service: requests do not change it on a discovered entry. */
export function isServiceLabel(label: string): boolean {
  return label.startsWith('service.') && !OPERATOR_LABELS.has(label);
}

/** A forward of a desired state: headers that it does not name and what its rules leave out stay unchanged. */
export const stateForward = forwardInput
  .extend({
    headers: forwardHeadersPatch
      .nullable()
      .optional()
      .describe(
        'Headers to set, and with null to remove; others stay unchanged. null removes all. Required, if only as `{}`, when `address` moves a forward with headers to another origin.',
      ),
    expose: exposePatch
      .nullable()
      .optional()
      .describe('Exposed entries: missing members stay unchanged, null removes rules.'),
  })
  .meta({ id: 'StateForward' });

const forwardManaged = z.never({ error: 'is set by its forward; remove it' }).optional();

/**
 * Overrides of a discovered tool under canonical names. Missing members follow the upstream; null removes an optional
 * member of the upstream.
 */
export const toolOverrides = withAliases(
  toolAliases,
  toolMembers
    .partial()
    .extend({
      forward: entryName.describe('Forward that discovers the tool.'),
      name: existingName.optional(),
      upstreamName: z
        .string()
        .min(1, 'must not be empty')
        .optional()
        .describe('Name on the upstream (default `name`).'),
      description: z.string().nullable().optional(),
      enabled: z.boolean().nullable().optional().describe('Unchanged if it is missing. null: `true`.'),
      title: z.string().nullable().optional(),
      annotations: jsonObject.nullable().optional(),
      icons: z.array(jsonValue).nullable().optional(),
      output_schema: jsonObject.nullable().optional(),
      execution: jsonObject.nullable().optional(),
      _meta: jsonObject.nullable().optional(),
      uri: forwardManaged,
      toolType: forwardManaged,
      shadowed: forwardManaged,
      upstream: forwardManaged,
    })
    .catchall(jsonValue)
    .superRefine(({ name, upstreamName, labels = {} }, context) => {
      const reject = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
      if (name === undefined && upstreamName === undefined) reject(['upstreamName'], 'is required unless name is set');
      const reserved = Object.keys(labels).find(isServiceLabel);
      if (reserved !== undefined) reject(['labels', reserved], 'is set by the service; remove it');
    }),
).meta({ id: 'ToolOverrides' });

/** Schemas of the entries of each section of a desired state, in the order in which it is written. */
export const stateSections = {
  namespaces: namespaceInput,
  forwards: stateForward,
  services: serviceInput,
  tools: z.union([toolOverrides, toolInput]),
  evaluators: evaluatorInput,
} as const;

/** A section of a desired state. */
export type StateSection = keyof typeof stateSections;

/** Returns the schema of an entry of `tools`: one with `forward` has overrides of a discovered tool. */
export function stateToolSchema(entry: object) {
  return Object.hasOwn(entry, 'forward') ? toolOverrides : toolInput;
}

const list = <T extends z.ZodType>(entry: T) => z.array(entry).optional();

/** Body of `PUT /api/v1/state`. */
export const stateInput = z
  .strictObject({
    namespaces: list(stateSections.namespaces),
    forwards: list(stateSections.forwards),
    services: list(stateSections.services),
    tools: list(stateSections.tools).describe(
      'Manually registered tools and, with `forward`, overrides of discovered tools.',
    ),
    evaluators: list(stateSections.evaluators).describe('Evaluators in order of execution.'),
    identity: identitySettings.optional().describe('Who may call, and their roles; all of it.'),
  })
  .meta({ id: 'StateInput' });

/** Changed member of an entry. */
const memberChange = z.object({
  member: z.string(),
  from: jsonValue.optional().describe('Missing if the member is new.'),
  to: jsonValue.optional().describe('Missing if the member is removed.'),
});

/** Difference between an entry and the desired state. */
export const stateChange = z
  .object({
    action: z.enum(['create', 'update', 'delete']),
    kind: z.enum(['namespace', 'forward', 'service', 'tool', 'evaluator', 'identity']),
    name: z.string().describe('Its name before the change.'),
    namespace: z.string().optional().describe('Of a tool, before the change.'),
    forward: z.string().optional().describe('Of a discovered tool.'),
    upstreamName: z.string().optional().describe('Of a discovered tool.'),
    serviceType: z.string().optional(),
    serviceSubType: z.string().optional(),
    languageName: z.string().optional(),
    contents: z
      .object({
        tools: z.number().int(),
        resources: z.number().int(),
        prompts: z.number().int(),
        forwards: z.number().int(),
      })
      .optional()
      .describe('What is deleted with a namespace.'),
    members: z.array(memberChange).readonly().describe('Changed members; empty for deletions.'),
    widens: z.array(z.string()).readonly().optional().describe('How the change widens the reach of agents.'),
    notes: z.array(z.string()).readonly(),
  })
  .meta({ id: 'StateChange' });

/** Response of `PUT /api/v1/state`. */
export const stateResult = z.object({ changes: z.array(stateChange) }).meta({ id: 'StateResult' });

export type StateInput = z.output<typeof stateInput>;
export type StateForward = z.output<typeof stateForward>;
export type ToolOverrides = z.output<typeof toolOverrides>;
export type StateChange = z.infer<typeof stateChange>;
export type MemberChange = z.infer<typeof memberChange>;
