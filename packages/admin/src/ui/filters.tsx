import { Search, Select, SelectItem } from '@carbon/react';
import { visibleText } from './inert-text.tsx';

/** A filter that selects one of some values. */
export interface SelectFilter {
  readonly id: string;
  readonly label: string;
  /** Text of the choice that selects everything. */
  readonly all: string;
  readonly options: readonly string[];
  /** Empty for everything. */
  readonly value: string;
  readonly onChange: (value: string) => void;
}

interface FilterBarProps {
  readonly search: string;
  readonly onSearch: (text: string) => void;
  readonly placeholder: string;
  readonly selects?: readonly SelectFilter[];
}

/** Search and filters above a table; their values are in the address. */
export function FilterBar({ search, onSearch, placeholder, selects = [] }: FilterBarProps) {
  return (
    <div className="table-filters">
      <Search
        id="search"
        size="md"
        labelText={placeholder}
        placeholder={placeholder}
        value={search}
        onChange={({ target }) => onSearch(target.value)}
        onClear={() => onSearch('')}
      />
      {selects.map(({ id, label, all, options, value, onChange }) => (
        <Select
          key={id}
          id={`filter-${id}`}
          size="md"
          labelText={label}
          hideLabel
          value={value}
          onChange={({ target }) => onChange(target.value)}
        >
          <SelectItem value="" text={all} />
          {options.toSorted().map((option) => (
            <SelectItem key={option} value={option} text={visibleText(option, 80)} />
          ))}
        </Select>
      ))}
    </div>
  );
}

/** Whether one of the texts contains the search text, in any case. */
export function matches(search: string, ...texts: readonly (string | undefined)[]): boolean {
  const wanted = search.trim().toLowerCase();
  return wanted === '' || texts.some((text) => text?.toLowerCase().includes(wanted));
}
