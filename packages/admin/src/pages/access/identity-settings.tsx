import { Button, InlineNotification, SkeletonText } from '@carbon/react';
import { type components, unwrap } from '@sluice/contract/client';
import { useMemo } from 'react';
import { useApi } from '../../api/api.ts';
import { useApiQuery } from '../../api/queries.ts';
import type { Column } from '../../ui/data-table.tsx';
import { InertText, visibleText } from '../../ui/inert-text.tsx';
import { JsonView } from '../../ui/json-view.tsx';
import { EmptyState } from '../../ui/notices.tsx';
import { QueryTable } from '../../ui/query-table.tsx';
import { useIdentityStatus } from './keys.tsx';

type Schemas = components['schemas'];
type Settings = Schemas['Identity'];

/** The active settings of identity: who may call, and which roles they have. */
export function IdentitySettings() {
  const { base } = useApi();
  const { data: status } = useIdentityStatus();
  const read = useApiQuery(['other', 'identity', 'active'], async (client, signal) => {
    const [settings, revisions] = await Promise.all([
      unwrap(client.GET('/api/v1/identity', { signal })),
      unwrap(client.GET('/api/v1/identity/revisions', { signal })),
    ]);
    return { settings, revision: revisions.find((each) => each.status === 'active') };
  });
  const { settings, revision } = read.data ?? {};
  const sources = useMemo(() => settings && sourcesOf(settings), [settings]);
  return (
    <>
      <p>
        Change it in the bootstrap file, or without a restart with <code>sluice identity apply</code> or the{' '}
        <a href={`${base}/api/docs`}>management API</a>.
      </p>
      {status?.warnings.map(({ path, message }) => (
        <InlineNotification
          key={path}
          kind="warning"
          lowContrast
          hideCloseButton
          title={path}
          subtitle={visibleText(message)}
        />
      ))}
      {revision && <Revision revision={revision} />}
      {settings && <Roles {...settings} />}
      <QueryTable
        query={read}
        label="Sources of principals"
        rows={read.data && (sources ?? [])}
        all={read.data && (sources?.length ?? 0)}
        columns={COLUMNS}
        rowKey={({ name }) => name}
        empty={
          <EmptyState
            title={settings ? 'No sources' : 'No identity is configured'}
            text={
              settings
                ? 'Nobody can authenticate: all callers are anonymous.'
                : 'Nobody is authenticated, and everybody who reaches the management port may do everything.'
            }
            action={<Button onClick={() => void read.refetch()}>Check again</Button>}
          />
        }
      />
      {!read.data && !read.error && <SkeletonText paragraph lineCount={3} />}
      {settings && <JsonView label="Settings as JSON" value={settings} />}
    </>
  );
}

function Revision({ revision }: { readonly revision: Schemas['IdentityRevision'] }) {
  const { id, activated_at, actor, origin } = revision;
  const by = actor ?? (origin === 'api' ? 'an anonymous caller of the API' : 'the bootstrap file');
  return (
    <p>
      Revision {id}
      {activated_at !== undefined && `, active since ${new Date(activated_at).toLocaleString()}`}, by{' '}
      <InertText text={by} maxLength={200} />
    </p>
  );
}

/** Who has which role, and what anonymous callers may do. */
function Roles({ anonymous, inference, roles = {} }: Settings) {
  const rejected = inference ? 'rejected, also on the inference listener' : 'rejected';
  return (
    <dl className="facts">
      <dt>Anonymous callers</dt>
      <dd>{anonymous === 'deny' ? rejected : 'accepted'}</dd>
      {Object.entries(roles).map(([role, groups]) => (
        <div key={role} className="fact">
          <dt>Role {role}</dt>
          <dd>
            <InertText text={groups.map(nameOf).join(', ') || 'nobody'} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function nameOf(group: string): string {
  return group === '*' ? 'every authenticated principal' : group;
}

/** What proves who calls. */
interface Source {
  readonly name: string;
  readonly credential: string;
  readonly from: string;
  readonly groups: string;
  /** How its principals come to the management API. */
  readonly management: string;
}

const COLUMNS: readonly Column<Source>[] = [
  { id: 'name', header: 'Source', accessorFn: ({ name }) => name },
  { id: 'credential', header: 'Credential', accessorFn: ({ credential }) => credential },
  { id: 'from', header: 'From', accessorFn: ({ from }) => from },
  { id: 'groups', header: 'Groups', accessorFn: ({ groups }) => groups },
  { id: 'management', header: 'Management API', accessorFn: ({ management }) => management },
];

function sourcesOf({ proxy, tokens, keys }: Settings): Source[] {
  const found: Source[] = tokens.map((issuer) => ({
    name: nameOfSource(issuer.name, issuer.bare),
    credential: 'tokens',
    from: issuer.issuer,
    groups: issuer.groups.length === 0 ? 'none' : `claims ${issuer.groups.join(', ')}`,
    management:
      [...(issuer.sign_in ? ['sign-in'] : []), ...(issuer.management_audiences.length > 0 ? ['tokens'] : [])].join(
        ', ',
      ) || 'no',
  }));
  if (proxy)
    found.unshift({
      name: nameOfSource('proxy', proxy.bare),
      credential: `header ${proxy.user}`,
      from: proxy.trusted.join(', '),
      groups: proxy.groups === undefined ? 'none' : `header ${proxy.groups}`,
      management: 'yes',
    });
  if (keys.length > 0)
    found.push({
      name: 'keys',
      credential: 'keys',
      from: keys.map(({ name }) => name).join(', '),
      groups: 'those of each key',
      management:
        keys
          .filter(({ management }) => management)
          .map(({ name }) => name)
          .join(', ') || 'no',
    });
  return found;
}

function nameOfSource(name: string, isBare: boolean): string {
  return isBare ? `${name} (without a prefix)` : name;
}
