import { Button } from '@carbon/react';
import { Validator } from '@cfworker/json-schema';
import Form from '@rjsf/core/lib/components/Form.js';
import {
  type DescriptionFieldProps,
  type IconButtonProps,
  type RJSFSchema,
  type RJSFValidationError,
  toErrorSchema,
  type UnsupportedFieldProps,
  type ValidatorType,
} from '@rjsf/utils';
import { useMemo } from 'react';
import { InertText, visibleText } from './inert-text.tsx';
import { JsonView } from './json-view.tsx';

/** Values of the properties of a schema. */
export type FormValue = Readonly<Record<string, unknown>>;

interface SchemaFormProps {
  /** JSON Schema of an object. */
  readonly schema: Readonly<Record<string, unknown>>;
  readonly value: FormValue;
  readonly onChange: (value: FormValue) => void;
}

/** A form made from a JSON Schema. Errors are shown while it is filled in; they do not prevent a submission. */
export function SchemaForm({ schema, value, onChange }: SchemaFormProps) {
  const validator = useMemo(createValidator, []);
  const shown = useMemo(() => withVisibleTitles(schema), [schema]);
  return (
    <div className="schema-form">
      <Form<FormValue>
        tagName="div"
        schema={shown satisfies RJSFSchema}
        formData={value}
        validator={validator}
        liveValidate
        showErrorList={false}
        uiSchema={{ 'ui:submitButtonOptions': { norender: true } }}
        templates={templates}
        onChange={({ formData }) => onChange(formData ?? {})}
      />
    </div>
  );
}

/**
 * Gives the properties and choices of a schema titles in which all characters are visible, since the form shows their names
 * as they are.
 */
function withVisibleTitles(schema: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(schema).flatMap(([keyword, value]): [string, unknown][] => {
      if (keyword === 'properties' && isObject(value)) {
        const named = Object.entries(value).map(([name, property]) => {
          if (!isObject(property)) return [name, property];
          const { title } = property;
          return [
            name,
            { ...withVisibleTitles(property), title: visibleText(typeof title === 'string' ? title : name) },
          ];
        });
        return [[keyword, Object.fromEntries(named)]];
      }
      if (keyword === 'title' && typeof value === 'string') return [[keyword, visibleText(value)]];
      if (keyword === 'enum' && Array.isArray(value) && value.every((choice) => typeof choice === 'string')) {
        const choices = value.map((choice) => ({ const: choice, title: visibleText(choice) }));
        return [
          ['type', 'string'],
          ['oneOf', choices],
        ];
      }
      if (Array.isArray(value))
        return [[keyword, value.map((item) => (isObject(item) ? withVisibleTitles(item) : item))]];
      const isData = keyword === 'const' || keyword === 'default';
      return [[keyword, isObject(value) && !isData ? withVisibleTitles(value) : value]];
    }),
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const templates = {
  DescriptionFieldTemplate: Description,
  UnsupportedFieldTemplate: UnsupportedField,
  ButtonTemplates: {
    AddButton: (props: IconButtonProps) => <FormButton {...props} label="Add" />,
    CopyButton: (props: IconButtonProps) => <FormButton {...props} label="Copy" />,
    MoveUpButton: (props: IconButtonProps) => <FormButton {...props} label="Move up" />,
    MoveDownButton: (props: IconButtonProps) => <FormButton {...props} label="Move down" />,
    RemoveButton: (props: IconButtonProps) => <FormButton {...props} label="Remove" />,
    ClearButton: (props: IconButtonProps) => <FormButton {...props} label="Clear" />,
    SubmitButton: () => null,
  },
};

function Description({ id, description }: DescriptionFieldProps) {
  if (typeof description !== 'string' || description === '') return null;
  return (
    <p id={id} className="cds--form__helper-text">
      <InertText text={description} />
    </p>
  );
}

/** Part of a schema that no form can be made of. */
function UnsupportedField({ schema }: UnsupportedFieldProps) {
  return <JsonView value={schema} label="Schema of a field that has no form" />;
}

function FormButton({ id, disabled, onClick, label }: IconButtonProps & { readonly label: string }) {
  return (
    <Button kind="ghost" size="sm" id={id} disabled={disabled === true} onClick={onClick}>
      {label}
    </Button>
  );
}

/** Keywords whose errors only say that another error is below them. */
const CONTAINERS: ReadonlySet<string> = new Set(['properties', 'items', '$ref', 'allOf', 'anyOf', 'oneOf']);

/** A validator that interprets schemas: the content security policy forbids generated code. */
function createValidator(): ValidatorType<FormValue, RJSFSchema> {
  const errorsOf = (schema: RJSFSchema, data: unknown): RJSFValidationError[] => {
    try {
      return new Validator(Object.fromEntries(Object.entries(schema)), '2020-12', false)
        .validate(data)
        .errors.filter(({ keyword }) => !CONTAINERS.has(keyword))
        .map(({ keyword, error, instanceLocation }) => ({
          name: keyword,
          message: error,
          stack: error,
          property: instanceLocation.replace(/^#/, '').replaceAll('/', '.'),
        }));
    } catch {
      // A schema with an unknown reference: the upstream validates.
      return [];
    }
  };
  return {
    validateFormData: (data, schema) => {
      const errors = errorsOf(schema, data ?? {});
      return { errors, errorSchema: toErrorSchema(errors) };
    },
    isValid: (schema, data, rootSchema) =>
      errorsOf({ ...schema, $defs: rootSchema.$defs, definitions: rootSchema.definitions }, data ?? {}).length === 0,
    rawValidation: (schema, data) => ({
      errors: [],
      ...(errorsOf(schema, data).length > 0 && { validationError: new Error() }),
    }),
  };
}
