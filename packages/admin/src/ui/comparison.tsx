import { Tag } from '@carbon/react';
import { InertText } from './inert-text.tsx';

/** Values of a member, one per column. */
export interface ComparedMember {
  readonly name: string;
  readonly values: readonly unknown[];
  readonly isChanged: boolean;
}

interface ComparisonProps {
  /** Titles of the columns after that of the member. */
  readonly columns: readonly string[];
  readonly members: readonly ComparedMember[];
}

/** Members side by side, with those that were changed marked. */
export function Comparison({ columns, members }: ComparisonProps) {
  return (
    <section
      className="table-scroll"
      aria-label="Comparison"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region has to be reachable by keyboard
      tabIndex={0}
    >
      <table className="cds--data-table comparison">
        <thead>
          <tr>
            <th scope="col">Member</th>
            {columns.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {members.map(({ name, values, isChanged }) => (
            <tr key={name} className={isChanged ? 'is-changed' : ''}>
              <th scope="row">
                <InertText text={name} />{' '}
                {isChanged && (
                  <Tag type="purple" size="sm">
                    Changed
                  </Tag>
                )}
              </th>
              {values.map((value, at) => (
                <td key={columns[at]}>
                  <Value value={value} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Value({ value }: { readonly value: unknown }) {
  if (value === undefined || value === null) return '–';
  if (typeof value === 'string') return <InertText text={value} />;
  return (
    <pre>
      <InertText text={JSON.stringify(value, null, 2)} />
    </pre>
  );
}
