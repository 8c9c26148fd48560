//! Instances and the configurations they can have.

use super::configuration::{CONFIG, capacity, config, implied};
use super::operations::Done;
use super::{Admin, instance, longrunning, names, page, refuse};
use crate::engine::{Code, Error, Result};

/// Returns the error for an instance that isn't there.
pub(super) fn not_found(name: &str) -> Error {
    let kind = "type.googleapis.com/google.spanner.admin.instance.v1.Instance";
    Error::resource_not_found(kind, "Instance", name)
}

/// Returns the field and the text of a filter of one restriction, `name:a` or `labels.env:a`. With these
/// the suites of Google's clients find the instances that they left.
fn restriction(filter: &str) -> Result<Option<(&str, &str)>> {
    let is_word = |text: &str| !text.is_empty() && !text.contains([' ', '"', '(', ')', ':', '*']);
    let is_known =
        |field: &str| field == "name" || field.strip_prefix("labels.").is_some_and(is_word);
    match filter.split_once(':') {
        None if filter.is_empty() => Ok(None),
        Some((field, text)) if is_known(field) && is_word(text) => Ok(Some((field, text))),
        _ => Err(Error::unimplemented(format!("Not supported here: the filter `{filter}`"))),
    }
}

fn passes(found: &instance::Instance, restriction: Option<(&str, &str)>) -> bool {
    let Some((field, text)) = restriction else { return true };
    let own = match field.strip_prefix("labels.") {
        Some(label) => found.labels.get(label).map(String::as_str),
        None => found.name.rsplit('/').next(),
    };
    own.is_some_and(|own| own.contains(text))
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
        match *request.name.split('/').collect::<Vec<_>>() {
            ["projects", _, "instanceConfigs", CONFIG] => Ok(config(request.name.clone())),
            _ => {
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
        if registry.instance(&name).is_some() {
            let message = format!("Instance already exists: {name}");
            return Err(Error::new(Code::AlreadyExists, message));
        }
        registry.add_instance(created.clone());
        let metadata = instance::CreateInstanceMetadata {
            instance: Some(created.clone()),
            start_time: created.create_time,
            end_time: created.create_time,
            ..Default::default()
        };
        let made = Done::Instance(created);
        Ok(registry.operations.add(&name, "CreateInstanceMetadata", &metadata, made))
    }

    pub(super) fn get_instance(
        &self,
        request: instance::GetInstanceRequest,
    ) -> Result<instance::Instance> {
        names::instance(&request.name)?;
        let registry = self.registry();
        registry.instance(&request.name).cloned().ok_or_else(|| not_found(&request.name))
    }

    pub(super) fn list_instances(
        &self,
        request: instance::ListInstancesRequest,
    ) -> Result<instance::ListInstancesResponse> {
        names::project(&request.parent)?;
        let restriction = restriction(&request.filter)?;
        let registry = self.registry();
        let below = format!("{}/", request.parent);
        let all = registry.instances.iter();
        let all = all.filter(|found| found.name.starts_with(&below) && passes(found, restriction));
        let (instances, next_page_token) =
            page(all, |found| &found.name, request.page_size, &request.page_token);
        let instances = instances.into_iter().cloned().collect();
        Ok(instance::ListInstancesResponse { instances, next_page_token, ..Default::default() })
    }

    /// Deletes an instance with its databases.
    pub(super) fn delete_instance(&self, request: instance::DeleteInstanceRequest) -> Result<()> {
        names::instance(&request.name)?;
        let mut registry = self.registry();
        let known = registry.instances.iter().position(|known| known.name == request.name);
        registry.instances.remove(known.ok_or_else(|| not_found(&request.name))?);
        registry.operations.forget_below(&request.name);
        let below = format!("{}/databases/", request.name);
        registry.proto_descriptors.retain(|name, _| !name.starts_with(&below));
        for (name, _) in self.core.all_databases() {
            if name.starts_with(&below) {
                self.core.drop_database(&name);
            }
        }
        Ok(())
    }
}
