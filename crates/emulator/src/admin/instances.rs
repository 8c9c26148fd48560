//! Instances and the configurations they can have.

use super::configuration::{CONFIG, capacity, config, implied};
use super::operations::Done;
use super::{Admin, encode, instance, longrunning, names, page, refuse};
use crate::engine::{Code, Error, Result};

/// Returns the error for an instance that isn't there.
pub(super) fn not_found(name: &str) -> Error {
    let kind = "type.googleapis.com/google.spanner.admin.instance.v1.Instance";
    Error::resource_not_found(kind, "Instance", name)
}

/// The filter of a list of instances: terms such as `labels.env:dev`, all of which must hold.
struct Filter(Vec<(String, char, String)>);

impl Filter {
    fn parse(text: &str) -> Result<Filter> {
        let refused = || Error::unimplemented(format!("Not supported here: the filter `{text}`"));
        let terms = text.split_whitespace().filter(|term| *term != "AND");
        let term = |term: &str| {
            let at = term.find([':', '=']).ok_or_else(refused)?;
            let (field, rest) = (term[..at].to_ascii_lowercase(), &term[at..]);
            let value = rest[1..].trim_matches('"').to_ascii_lowercase();
            let is_known = ["name", "display_name"].contains(&field.as_str())
                || field.strip_prefix("labels.").is_some_and(|label| !label.is_empty());
            match is_known && !value.contains(['(', ')', '"']) {
                true => Ok((field, if rest.starts_with(':') { ':' } else { '=' }, value)),
                false => Err(refused()),
            }
        };
        terms.map(term).collect::<Result<_>>().map(Filter)
    }

    fn passes(&self, found: &instance::Instance) -> bool {
        self.0.iter().all(|(field, operator, value)| {
            let own = match field.as_str() {
                "name" if value.contains('/') => Some(found.name.as_str()),
                "name" => Some(found.name.rsplit('/').next().unwrap_or_default()),
                "display_name" => Some(found.display_name.as_str()),
                label => {
                    let label = label.strip_prefix("labels.").unwrap_or(label);
                    found.labels.get(label).map(String::as_str)
                }
            };
            let own = own.map(str::to_ascii_lowercase);
            own.is_some_and(|own| match operator {
                ':' => value == "*" || own.contains(value),
                _ => own == *value,
            })
        })
    }
}

impl Admin {
    pub(super) fn list_instance_configs(
        &self,
        request: instance::ListInstanceConfigsRequest,
    ) -> Result<instance::ListInstanceConfigsResponse> {
        names::project(&request.parent)?;
        let name = format!("{}/instanceConfigs/{CONFIG}", request.parent);
        Ok(instance::ListInstanceConfigsResponse {
            instance_configs: vec![config(name)],
            ..Default::default()
        })
    }

    pub(super) fn get_instance_config(
        &self,
        request: instance::GetInstanceConfigRequest,
    ) -> Result<instance::InstanceConfig> {
        let known = names::is_shaped(&request.name, &["projects", "instanceConfigs"])
            && request.name.ends_with(&format!("/{CONFIG}"));
        match known {
            true => Ok(config(request.name)),
            false => {
                let kind = "type.googleapis.com/google.spanner.admin.instance.v1.InstanceConfig";
                Err(Error::resource_not_found(kind, "Instance config", &request.name))
            }
        }
    }

    pub(super) fn create_instance(
        &self,
        request: instance::CreateInstanceRequest,
    ) -> Result<longrunning::Operation> {
        names::project(&request.parent)?;
        names::instance_id(&request.instance_id)?;
        let asked = request.instance.unwrap_or_default();
        let name = format!("{}/instances/{}", request.parent, request.instance_id);
        if !asked.name.is_empty() && asked.name != name {
            return Err(Error::invalid_argument(format!(
                "instance is named `{}`, but `{name}` is to be created",
                asked.name
            )));
        }
        refuse("autoscaling_config", asked.autoscaling_config.is_some())?;
        let (node_count, processing_units) = capacity(&asked)?;
        let now = self.core.clock().now();
        let base = implied(&name, now);
        let or = |text: String, other: String| if text.is_empty() { other } else { text };
        let created = instance::Instance {
            config: or(asked.config, base.config.clone()),
            display_name: or(asked.display_name, base.display_name.clone()),
            node_count,
            processing_units,
            labels: asked.labels,
            instance_type: asked.instance_type,
            edition: asked.edition,
            default_backup_schedule_type: asked.default_backup_schedule_type,
            ..base
        };
        let mut registry = self.registry();
        if registry.instances.contains_key(&name) {
            return Err(Error::new(
                Code::AlreadyExists,
                format!("Instance already exists: {name}"),
            ));
        }
        registry.instances.insert(name.clone(), created.clone());
        let metadata = instance::CreateInstanceMetadata {
            instance: Some(created.clone()),
            start_time: created.create_time,
            end_time: created.create_time,
            ..Default::default()
        };
        Ok(registry.operations.add(
            &name,
            "CreateInstanceMetadata",
            &metadata,
            Done::Instance(created),
        ))
    }

    pub(super) fn get_instance(
        &self,
        request: instance::GetInstanceRequest,
    ) -> Result<instance::Instance> {
        names::instance(&request.name)?;
        let registry = self.registry();
        registry.instances.get(&request.name).cloned().ok_or_else(|| not_found(&request.name))
    }

    pub(super) fn list_instances(
        &self,
        request: instance::ListInstancesRequest,
    ) -> Result<instance::ListInstancesResponse> {
        names::project(&request.parent)?;
        let filter = Filter::parse(&request.filter)?;
        let registry = self.registry();
        let below = format!("{}/", request.parent);
        let all = registry.instances.values();
        let all = all.filter(|found| found.name.starts_with(&below) && filter.passes(found));
        let (instances, next_page_token) =
            page(all, |found| &found.name, request.page_size, &request.page_token);
        let instances = instances.into_iter().cloned().collect();
        Ok(instance::ListInstancesResponse { instances, next_page_token, ..Default::default() })
    }

    pub(super) fn update_instance(
        &self,
        request: instance::UpdateInstanceRequest,
    ) -> Result<longrunning::Operation> {
        let asked = request.instance.unwrap_or_default();
        let paths = request.field_mask.unwrap_or_default().paths;
        if paths.is_empty() {
            return Err(Error::invalid_argument("an update needs a field mask"));
        }
        let (node_count, processing_units) = capacity(&asked)?;
        let mut registry = self.registry();
        let current =
            registry.instances.get_mut(&asked.name).ok_or_else(|| not_found(&asked.name))?;
        let mut updated = current.clone();
        for path in paths {
            match path.as_str() {
                "display_name" => updated.display_name.clone_from(&asked.display_name),
                "labels" => updated.labels.clone_from(&asked.labels),
                "node_count" | "processing_units" => {
                    (updated.node_count, updated.processing_units) = (node_count, processing_units);
                }
                other => return Err(Error::unimplemented(format!("an update of {other}"))),
            }
        }
        updated.update_time = Some(encode(self.core.clock().now()));
        current.clone_from(&updated);
        let metadata = instance::UpdateInstanceMetadata {
            instance: Some(updated.clone()),
            start_time: updated.update_time,
            end_time: updated.update_time,
            ..Default::default()
        };
        let name = updated.name.clone();
        Ok(registry.operations.add(
            &name,
            "UpdateInstanceMetadata",
            &metadata,
            Done::Instance(updated),
        ))
    }

    /// Deletes an instance with its databases.
    pub(super) fn delete_instance(&self, request: instance::DeleteInstanceRequest) -> Result<()> {
        names::instance(&request.name)?;
        let mut registry = self.registry();
        registry.instances.remove(&request.name).ok_or_else(|| not_found(&request.name))?;
        registry.operations.forget_below(&request.name);
        let below = format!("{}/databases/", request.name);
        for (name, _) in self.core.all_databases() {
            if name.starts_with(&below) {
                self.core.drop_database(&name);
            }
        }
        Ok(())
    }
}
