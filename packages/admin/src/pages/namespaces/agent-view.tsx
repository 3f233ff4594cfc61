import { Select, SelectItem, SkeletonText, Tag } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useState } from 'react';
import { useApiQuery } from '../../api/queries.ts';
import { TextInput } from '../../ui/fields.tsx';
import { InertText } from '../../ui/inert-text.tsx';
import { tryParse } from '../../ui/json-editor.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { routeTo } from '../../ui/route.ts';

type ViewEntry = components['schemas']['ViewEntry'];
type EntrySource = components['schemas']['EntrySource'];

/** Entries that are shown; the pages of tools, resources and prompts have all. */
const SHOWN = 200;

const REASONS = {
  disabled: 'disabled by an operator',
  shadowed: 'another entry holds its name',
  blocked: 'its forward is blocked',
  other_clients: 'its upstream offers it to other clients only',
} as const;

/** What an agent of the chosen era and capabilities is offered in a namespace, where it comes from, and what it is not offered. */
export function AgentView({ namespace }: { readonly namespace: string }) {
  const [era, setEra] = useState('modern');
  const [capabilities, setCapabilities] = useState('{}');
  const isValid = typeof tryParse(capabilities) === 'object';
  const sent = isValid ? capabilities : '{}';
  const { data, error, refetch } = useApiQuery(['tools', 'view', namespace, era, sent], (client, signal) =>
    unwrap(
      client.GET('/api/v1/namespaces/{name}/view', {
        params: { path: { name: namespace }, query: { era, capabilities: sent } },
        signal,
      }),
    ),
  );
  const offered = data?.filter((entry) => entry.offered) ?? [];
  const hidden = data?.filter((entry) => !entry.offered) ?? [];
  return (
    <>
      <div className="form-row">
        <Select id="view-era" labelText="Era of the agent" value={era} onChange={({ target }) => setEra(target.value)}>
          <SelectItem value="modern" text="modern: without sessions" />
          <SelectItem value="legacy" text="legacy: with initialize" />
        </Select>
        <TextInput
          id="view-capabilities"
          labelText="Its capabilities"
          placeholder='{"elicitation":{}}'
          value={capabilities}
          onChange={({ target }) => setCapabilities(target.value)}
          invalid={!isValid}
          invalidText="Must be a JSON object"
        />
      </div>
      {error && <ErrorNotice title="The view could not be loaded" error={error} onRetry={() => void refetch()} />}
      {!data && !error && <SkeletonText paragraph lineCount={4} />}
      {data && (
        <>
          <h4 className="section-title">{`Offered (${offered.length})`}</h4>
          <Entries entries={offered} />
          {hidden.length > 0 && (
            <>
              <h4 className="section-title">{`Not offered (${hidden.length})`}</h4>
              <Entries entries={hidden} />
            </>
          )}
        </>
      )}
    </>
  );
}

function Entries({ entries }: { readonly entries: readonly ViewEntry[] }) {
  if (entries.length === 0) return <p>Nothing.</p>;
  return (
    <>
      <ul className="view-entries">
        {entries.slice(0, SHOWN).map((entry, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: shadowed entries share their key
          <li key={index}>
            <Tag size="sm" type="cool-gray">
              {entry.kind.replace('_', ' ')}
            </Tag>{' '}
            <InertText text={entry.name} maxLength={200} /> <Origin source={entry.source} />
            {entry.overrides.length > 0 && (
              <Tag size="sm" type="purple">
                changed: {entry.overrides.join(', ')}
              </Tag>
            )}
            {entry.reason && ` – ${REASONS[entry.reason]}`}
            {entry.shadowedBy && (
              <>
                : <Origin source={entry.shadowedBy} />
              </>
            )}
          </li>
        ))}
      </ul>
      {entries.length > SHOWN && <p>{`and ${entries.length - SHOWN} more`}</p>}
    </>
  );
}

function Origin({ source }: { readonly source: EntrySource }) {
  if (source.kind === 'manual') return <>by hand</>;
  return (
    <>
      from{' '}
      <a href={routeTo('/forwards', { open: source.forward })}>
        <InertText text={source.forward} maxLength={80} />
      </a>
    </>
  );
}
