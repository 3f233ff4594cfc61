import { ComboBox, DismissibleTag } from '@carbon/react';
import { useId, useState } from 'react';
import { useEntries } from '../../api/entries.ts';
import { comboBoxLabel } from '../../ui/fields.tsx';
import { visibleText } from '../../ui/inert-text.tsx';

interface ToolPickerProps {
  /** Names of the selected tools. */
  readonly selected: readonly string[];
  readonly onChange: (selected: readonly string[]) => void;
}

/** Matches to show. */
const SHOWN = 50;

/** Selects tools by name. */
export function ToolPicker({ selected, onChange }: ToolPickerProps) {
  const id = useId();
  const { data } = useEntries('tools');
  const [text, setText] = useState('');
  const names = [...new Set(data?.entries.filter(({ enabled, shadowed }) => enabled && !shadowed).map(nameOf))];
  const wanted = text.trim().toLowerCase();
  const found = names.filter((name) => !selected.includes(name) && name.toLowerCase().includes(wanted));
  return (
    <div className="tool-picker">
      <ComboBox<string>
        // An added tool leaves the input empty.
        key={selected.length}
        id="chat-tools"
        titleText="Tools"
        helperText="Tools that the model may call"
        placeholder="Add a tool"
        translateWithId={comboBoxLabel}
        items={found.slice(0, SHOWN)}
        itemToString={(name) => visibleText(name ?? '')}
        onInputChange={setText}
        onChange={({ selectedItem }) => {
          if (!selectedItem) return;
          setText('');
          onChange([...selected, selectedItem]);
        }}
      />
      {selected.map((name) => (
        <DismissibleTag
          key={`${id} ${name}`}
          type="blue"
          text={visibleText(name)}
          title={`Remove ${visibleText(name)}`}
          onClose={() => onChange(selected.filter((other) => other !== name))}
        />
      ))}
    </div>
  );
}

function nameOf({ name }: { readonly name: string }): string {
  return name;
}
