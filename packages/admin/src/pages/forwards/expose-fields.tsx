import { Checkbox, InlineNotification, TextArea } from '@carbon/react';
import { EXPOSED_KINDS, type Expose } from '@sluice/contract';
import { useMemo } from 'react';
import { type EntryKind, type LongList, useEntries } from '../../api/entries.ts';
import type { Forward } from '../../api/queries.ts';
import { InertText } from '../../ui/inert-text.tsx';

/** What is typed: one glob per line. */
export type ExposeDraft = Readonly<
  Record<EntryKind, { readonly allow: string; readonly deny: string; readonly disableNew: boolean }>
>;

interface ExposeFieldsProps {
  readonly draft: ExposeDraft;
  readonly onChange: (draft: ExposeDraft) => void;
  /** The forward whose discovered entries are compared; none for a new one. */
  readonly forward?: Forward;
  readonly error: string | undefined;
}

const TITLES = { tools: 'Tools', resources: 'Resources, by URI', prompts: 'Prompts' } as const;

/** Which entries of the upstream agents may see, with the effect on those that are known. */
export function ExposeFields({ draft, onChange, forward, error }: ExposeFieldsProps) {
  const setRules = (kind: EntryKind, rules: Partial<ExposeDraft[EntryKind]>): void =>
    onChange({ ...draft, [kind]: { ...draft[kind], ...rules } });
  return (
    <>
      <p>
        Names on the server, one glob per line: * matches any characters, ? one. Denied entries win over allowed ones.
      </p>
      {EXPOSED_KINDS.map((kind) => (
        <fieldset key={kind} className="expose-rules">
          <legend className="section-title">{TITLES[kind]}</legend>
          <div className="form-row">
            <TextArea
              id={`expose-${kind}-allow`}
              labelText="Allow"
              placeholder="Everything"
              rows={2}
              value={draft[kind].allow}
              onChange={({ target }) => setRules(kind, { allow: target.value })}
            />
            <TextArea
              id={`expose-${kind}-deny`}
              labelText="Deny"
              placeholder="Nothing"
              rows={2}
              value={draft[kind].deny}
              onChange={({ target }) => setRules(kind, { deny: target.value })}
            />
          </div>
          <Checkbox
            id={`expose-${kind}-new`}
            labelText="Disable entries that appear later, until an operator enables them"
            checked={draft[kind].disableNew}
            onChange={(_event, { checked }) => setRules(kind, { disableNew: checked })}
          />
          {forward && <Preview kind={kind} forward={forward} draft={draft} />}
        </fieldset>
      ))}
      {error !== undefined && (
        <InlineNotification kind="error" lowContrast hideCloseButton title="The rules are not valid" subtitle={error} />
      )}
    </>
  );
}

/** Entries to name in the preview. */
const NAMED = 10;

/** The discovered entries that the rules would remove. */
function Preview({ kind, forward, draft }: { kind: EntryKind; forward: Forward; draft: ExposeDraft }) {
  const { data } = useEntries<EntryKind>(kind);
  const names = useMemo(() => upstreamKeys(data, forward), [data, forward]);
  const removed = names.filter((name) => !isExposed(name, draft[kind]));
  if (names.length === 0) return null;
  if (removed.length === 0) return <p className="table-count">All {names.length} known entries stay.</p>;
  return (
    <p className="table-count" role="status">
      {removed.length} of {names.length} known entries would no longer be served:{' '}
      <InertText text={removed.slice(0, NAMED).join(', ') + (removed.length > NAMED ? ', …' : '')} />
    </p>
  );
}

function upstreamKeys(list: LongList<Forward | Record<string, unknown>> | undefined, forward: Forward): string[] {
  return (list?.entries ?? [])
    .filter((entry) => 'forward' in entry && entry.forward === forward.name)
    .map((entry) => {
      if ('location' in entry) return String(entry.location);
      if ('upstreamName' in entry && entry.upstreamName !== undefined) return String(entry.upstreamName);
      return String(entry.name);
    });
}

/** Whether the rules expose a name: the same rules as those of the service, for the preview. */
function isExposed(name: string, { allow, deny }: ExposeDraft[EntryKind]): boolean {
  const isMatch = (globs: readonly string[]): boolean => globs.some((glob) => toPattern(glob).test(name));
  const allowed = lines(allow);
  return (allowed.length === 0 || isMatch(allowed)) && !isMatch(lines(deny));
}

function toPattern(glob: string): RegExp {
  const escaped = glob
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll(/\*+/g, '.*')
    .replaceAll('?', '.');
  return new RegExp(`^${escaped}$`, 's');
}

/** Returns the rules of a forward as text. */
export function toExposeDraft(expose: Expose = {}): ExposeDraft {
  const draft = (kind: EntryKind) => ({
    allow: (expose[kind]?.allow ?? []).join('\n'),
    deny: (expose[kind]?.deny ?? []).join('\n'),
    disableNew: expose[kind]?.new === 'disabled',
  });
  return { tools: draft('tools'), resources: draft('resources'), prompts: draft('prompts') };
}

/** Reads the rules; kinds without rules are left out. */
export function parseExpose(draft: ExposeDraft): Expose {
  const rules = EXPOSED_KINDS.map((kind) => {
    const allow = lines(draft[kind].allow);
    const deny = lines(draft[kind].deny);
    const parsed = {
      ...(allow.length > 0 && { allow }),
      ...(deny.length > 0 && { deny }),
      ...(draft[kind].disableNew && { new: 'disabled' as const }),
    };
    return [kind, parsed] as const;
  });
  return Object.fromEntries(rules.filter(([, parsed]) => Object.keys(parsed).length > 0));
}

function lines(text: string): string[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
