// Original file: proto/provision.proto


export interface PropertySchema {
  'type'?: (string);
  'description'?: (string);
  'required'?: (boolean);
}

export interface PropertySchema__Output {
  'type': (string);
  'description': (string);
  'required': (boolean);
}
